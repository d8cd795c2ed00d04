#pragma once

#include "supervisor/context.h"

namespace trainyard::supervisor {

// What is done for an attempt, in this order, one file each. The first ten say why the ranks
// cannot run by an error; the others always do what they can.
Status check_secrets(Context& context);
Status fetch_code(Context& context);
Status realise_environment(Context& context);
Status make_folders(Context& context);
Status restore_files(Context& context);
Status claim_attempt(Context& context);
Status limit_memory(Context& context);
Status run_preparation(Context& context);
Status meet_nodes(Context& context);
Status launch_ranks(Context& context);
void watch_ranks(Context& context);
void keep_outputs(Context& context);
void end_attempt(Context& context);
// Sends the end, which is the last report, to a server that has all else: `drained` says which.
// Where the server is started again meanwhile, what it may have lost is sent again first.
void confirm_end(Context& context, Uplink::Drained drained);
void clean_up(Context& context);

// Of limit_memory(): the control group's name, and why `process` ended (Layout::note).
std::string memory_group_name(const Assignment& assignment);
void note_out_of_memory(const Context& context, const std::string& process);

}  // namespace trainyard::supervisor
