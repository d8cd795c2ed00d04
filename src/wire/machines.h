#pragma once

#include "model/machine.h"
#include "wire/json.h"

// What a machine and the server say to each other, as JSON.
namespace trainyard::wire {

Json encode(const MachineFacts& facts);
Json encode(const MachineReport& report);
Json encode(const MachineOrders& orders);
Result<MachineFacts> decode_machine_facts(const Json& json);
Result<MachineReport> decode_machine_report(const Json& json);
Result<MachineOrders> decode_machine_orders(const Json& json);

// As people see it.
Json machine_to_json(const Machine& machine);

}  // namespace trainyard::wire
