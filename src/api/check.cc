#include "api/check.h"

#include <fmt/format.h>

#include <set>
#include <string>

#include "api/lock.h"
#include "api/trees.h"
#include "base/hash.h"
#include "store/environments.h"

namespace trainyard::api {
namespace {

using wire::Json;

constexpr int kRunsAtOnce = 1000;
constexpr size_t kFindingsMax = 1000;  // More of the same help nobody.
constexpr size_t kReadSize = 1 << 20;

class Check {
 public:
  Check(const CheckParts& parts, CheckDepth depth)
      : parts_(parts), trees_(parts.blobs), depth_(depth) {}

  Result<Json> all();

 private:
  Status check_run(const Run& run);
  Status check_environments();
  Status check_tree(const std::string& id, const std::string& run);
  Status check_blob(const Digest& digest, std::optional<uint64_t> size, const std::string& run);
  Status check_content(const Digest& digest, const std::string& run);
  void found(std::string_view what, std::string_view name, std::string_view problem,
             std::string_view run = {});

  const CheckParts& parts_;
  Trees trees_;
  const CheckDepth depth_;
  std::set<std::string> trees_seen_;
  std::set<Digest> blobs_seen_;
  Json findings_ = Json::array();
  int64_t runs_ = 0;
  uint64_t bytes_ = 0;
};

Result<Json> Check::all() {
  if (Status database = parts_.store.check(); !database) {
    found("database", "trainyard.db", database.error().message);
  }
  store::RunFilter filter{.children = true,
                          .archived = store::RunFilter::Archived::any,
                          .deleted = store::RunFilter::Deleted::any,
                          .limit = kRunsAtOnce};
  for (bool more = true; more;) {
    TRY_SET(const std::vector<Run> runs, parts_.store.runs(filter));
    for (const Run& run : runs) {
      if (findings_.size() >= kFindingsMax) break;
      TRY(check_run(run));
    }
    more = runs.size() == static_cast<size_t>(filter.limit) && findings_.size() < kFindingsMax;
    if (more) filter.before = runs.back().number;
  }
  TRY(check_environments());
  return Json{{"ok", findings_.empty()},     {"findings", std::move(findings_)}, {"runs", runs_},
              {"trees", trees_seen_.size()}, {"blobs", blobs_seen_.size()},      {"bytes", bytes_}};
}

Status Check::check_environments() {
  std::vector<EnvironmentRecord> records;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(records, store::environments_with_trees(db));
    return {};
  };
  TRY(parts_.store.read(look));
  for (const EnvironmentRecord& record : records) {
    TRY(check_tree(record.environment.recipe.context, ""));
  }
  return {};
}

Status Check::check_run(const Run& run) {
  ++runs_;
  TRY(check_tree(run.spec.snapshot, run.id.value));
  TRY(check_tree(run.outputs, run.id.value));
  TRY(check_tree(run.spec.environment.recipe.context, run.id.value));
  TRY_SET(const std::vector<std::string> wrong, parts_.logs.check(run.id));
  for (const std::string& sentence : wrong) {
    const size_t colon = sentence.find(": ");
    found("console", sentence.substr(0, colon), sentence.substr(colon + 2), run.id.value);
  }
  TRY_SET(const auto files, parts_.store.files(run.id));
  for (const store::Store::RunFile& file : files) {
    const Result<Fd> fd = parts_.logs.open_file(run.id, file.number);
    if (!fd) found("log", file.path, "is missing", run.id.value);
  }
  return {};
}

Status Check::check_tree(const std::string& id, const std::string& run) {
  if (id.empty() || !trees_seen_.insert(id).second) return {};
  const Result<Digest> digest = Digest::from_hex(id);
  if (!digest) {
    found("tree", id, "is no SHA-256", run);
    return {};
  }
  const size_t before = findings_.size();
  TRY(check_blob(*digest, std::nullopt, run));
  if (findings_.size() != before) return {};
  const auto tree = trees_.tree(id);
  if (!tree) {
    found("tree", id, tree.error().message, run);
    return {};
  }
  for (const snapshot::Entry& entry : (*tree)->entries) {
    using snapshot::EntryKind;
    if (entry.kind != EntryKind::file && entry.kind != EntryKind::executable) continue;
    if (findings_.size() >= kFindingsMax) return {};
    TRY(check_blob(entry.digest, entry.size, run));
  }
  return {};
}

Status Check::check_blob(const Digest& digest, std::optional<uint64_t> size,
                         const std::string& run) {
  if (!blobs_seen_.insert(digest).second) return {};
  const Result<uint64_t> have = parts_.blobs.size(digest);
  if (!have) {
    const bool missing = have.error().kind == ErrorKind::not_found;
    found("blob", digest.hex(), missing ? "is missing" : have.error().message, run);
    return {};
  }
  bytes_ += *have;
  if (size && *have != *size) {
    found("blob", digest.hex(), fmt::format("has {} bytes instead of {}", *have, *size), run);
    return {};
  }
  return depth_ == CheckDepth::content ? check_content(digest, run) : Status{};
}

Status Check::check_content(const Digest& digest, const std::string& run) {
  const Result<Fd> fd = parts_.blobs.open(digest);
  if (!fd) {
    found("blob", digest.hex(), fd.error().message, run);
    return {};
  }
  Hasher hasher;
  for (uint64_t offset = 0;;) {
    const Result<std::string> bytes = read_at(fd->get(), offset, kReadSize, "a blob");
    if (!bytes) {
      found("blob", digest.hex(), bytes.error().message, run);
      return {};
    }
    if (bytes->empty()) break;
    hasher.add(*bytes);
    offset += bytes->size();
  }
  if (hasher.finish() != digest) found("blob", digest.hex(), "has other bytes than its name", run);
  return {};
}

void Check::found(std::string_view what, std::string_view name, std::string_view problem,
                  std::string_view run) {
  findings_.push_back({{"what", what}, {"name", name}, {"problem", problem}, {"run", run}});
}

}  // namespace

Result<Json> check_parts(const CheckParts& parts, CheckDepth depth) {
  return Check(parts, depth).all();
}

Result<Json> check_home(const Home& home, Clock& clock, CheckDepth depth) {
  std::error_code error;
  if (!fs::exists(home.database(), error)) {
    return fail(ErrorKind::not_found, home.root().string() + " has no database");
  }
  TRY_SET(HomeLock lock, HomeLock::take(home));
  TRY_SET(const auto store, store::Store::open(home.database(), clock));
  TRY_SET(const auto blobs, blob::open_folder(home.blobs(), home.tmp()));
  logs::LogStore logs(home);
  Result<Json> result = check_parts({*store, *blobs, logs}, depth);
  lock.clear();
  return result;
}

}  // namespace trainyard::api
