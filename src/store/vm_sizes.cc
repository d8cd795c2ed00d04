#include "store/vm_sizes.h"

#include <map>
#include <optional>

#include "base/text.h"
#include "store/computes.h"

namespace trainyard::store {
namespace {

using wire::Json;

// A row of: name, cpus, memory_gb, gpus, price, price_low.
VmSize read_size(const db::Statement& row) {
  return {.name = row.text(0),
          .cpus = static_cast<int>(row.integer(1)),
          .memory_gb = row.real(2),
          .gpus = static_cast<int>(row.integer(3)),
          .price = row.real(4),
          .price_low = row.real(5)};
}

Result<std::optional<VmSize>> find_size(db::Db& db, std::string_view name) {
  TRY_SET(db::Statement row, db.query("SELECT name, cpus, memory_gb, gpus, price, price_low "
                                      "FROM vm_sizes WHERE name = ?",
                                      {name}));
  TRY_SET(const bool any, row.next());
  return any ? std::optional(read_size(row)) : std::nullopt;
}

Error no_such_size(db::Db& db, std::string_view name, ErrorKind kind) {
  std::map<std::string, std::string> spelled;
  std::vector<std::string> known;
  if (const auto all = list_vm_sizes(db)) {
    for (const VmSize& size : *all) {
      spelled[lower(size.name)] = size.name;
      known.push_back(lower(size.name));
    }
  }
  const std::string near = nearest(lower(name), known);
  return {kind, "size '" + std::string(name) + "' is not known",
          (near.empty() ? "" : "Did you mean '" + spelled[near] + "'? ") +
              std::string("Sizes are listed by: trainyard compute list-sizes")};
}

}  // namespace

Result<std::vector<VmSize>> list_vm_sizes(db::Db& db) {
  std::vector<VmSize> sizes;
  TRY_SET(db::Statement rows, db.query("SELECT name, cpus, memory_gb, gpus, price, price_low FROM "
                                       "vm_sizes ORDER BY gpus, cpus, memory_gb, name"));
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return sizes;
    sizes.push_back(read_size(rows));
  }
}

Result<VmSize> load_vm_size(db::Db& db, std::string_view name) {
  TRY_SET(std::optional<VmSize> found, find_size(db, name));
  if (found) return *std::move(found);
  return std::unexpected(no_such_size(db, name, ErrorKind::not_found));
}

Result<std::string> known_size_name(db::Db& db, std::string_view name) {
  if (name.empty()) return std::string();
  TRY_SET(const std::optional<VmSize> found, find_size(db, name));
  if (found) return found->name;
  return std::unexpected(no_such_size(db, name, ErrorKind::invalid));
}

Result<VmSize> set_vm_size(db::Transaction& transaction, std::string_view name,
                           const wire::Json& changes) {
  TRY_SET(const std::optional<VmSize> there, find_size(transaction.db(), name));
  VmSize before{.name = std::string(name)};
  if (there) before = *there;
  Json json = wire::encode(before);
  for (const auto& [key, value] : changes.items()) {
    if (!json.contains(key) || key == "name") {
      return fail(ErrorKind::invalid, "'" + key + "' is not to be set of a size",
                  "vCPUs, memoryGB, gpus, pricePerHour and lowPriorityPricePerHour are.");
    }
    json[key] = value;
  }
  // Who knows no price for it pays the other.
  if (!there && !changes.contains("lowPriorityPricePerHour")) {
    json["lowPriorityPricePerHour"] = json["pricePerHour"];
  }
  TRY_SET(VmSize size, wire::decode_vm_size(json));
  TRY(check_vm_size(size));
  TRY(transaction.run(
      "INSERT INTO vm_sizes (name, cpus, memory_gb, gpus, price, price_low) "
      "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET cpus = excluded.cpus, "
      "memory_gb = excluded.memory_gb, gpus = excluded.gpus, price = excluded.price, "
      "price_low = excluded.price_low",
      {size.name, size.cpus, size.memory_gb, size.gpus, size.price, size.price_low}));
  return size;
}

Status delete_vm_size(db::Transaction& transaction, std::string_view name) {
  TRY_SET(const VmSize size, load_vm_size(transaction.db(), name));
  TRY_SET(const std::vector<Compute> computes, all_computes(transaction.db()));
  for (const Compute& compute : computes) {
    if (compute.spec.vm_size != size.name) continue;
    return fail(ErrorKind::conflict,
                "size '" + size.name + "' is that of compute '" + compute.spec.name +
                    "' in the workspace " + compute.workspace,
                "Give that one another size first.");
  }
  TRY(transaction.run("DELETE FROM vm_sizes WHERE name = ?", {size.name}));
  return {};
}

}  // namespace trainyard::store
