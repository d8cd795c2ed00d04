#include <algorithm>

#include "api/environments.h"
#include "api/route.h"
#include "blob/pack.h"
#include "model/environment_record.h"
#include "store/environments.h"
#include "store/garbage.h"

namespace trainyard::api {
namespace {

constexpr size_t kMissingBodyMax = 64 << 20;  // Some 900,000 digests.
constexpr int kNewestRuns = 50;               // Of a workspace: their code need not be sent again.
constexpr size_t kNewestTrees = 8;

// A digest in the URL or in a list.
Result<Digest> digest_of(std::string_view hex) {
  Result<Digest> digest = Digest::from_hex(hex);
  if (!digest) return fail(ErrorKind::invalid, "not a SHA-256 in hex: " + std::string(hex));
  return digest;
}

// An admin reads everything, so to them the rules below say nothing.
bool reads_everything(const Call& call) {
  return call.identity.role == Role::admin && !call.identity.attempt;
}

// Returns the owner of a request's claims.
std::string owner_of(const Call& call) {
  return call.identity.attempt ? "run " + call.identity.attempt->run.value
                               : "user " + call.identity.user;
}

class PackSink : public http::BodySink {
 public:
  PackSink(blob::Store& blobs, blob::PackReader::OnKept on_kept)
      : reader_(blobs, std::move(on_kept)) {}
  Status write(std::string_view bytes) override { return reader_.write(bytes); }
  blob::PackReader& reader() { return reader_; }

 private:
  blob::PackReader reader_;
};

Result<http::Upload> open_pack(const Call& call) {
  blob::PackReader::OnKept on_kept;
  if (!reads_everything(call)) {
    on_kept = [&house = call.house, owner = owner_of(call)](const Digest& digest) {
      house.claims.add(owner, digest);
    };
  }
  auto sink = std::make_unique<PackSink>(call.house.blobs, std::move(on_kept));
  blob::PackReader& reader = sink->reader();
  http::Upload upload;
  upload.sink = std::move(sink);
  // The sink lives until the answer is made.
  upload.finish = [&reader](const http::Request&) -> http::Response {
    const Result<blob::PackReader::Outcome> outcome = reader.finish();
    if (!outcome)
      return answer(wire::error_to_json(outcome.error()), wire::http_status(outcome.error().kind));
    Json bad = Json::array();
    for (const Digest& digest : outcome->bad) bad.push_back(digest.hex());
    return answer({{"kept", outcome->kept}, {"bad", std::move(bad)}});
  };
  return upload;
}

// The trees that a run names, and that of its environment.
Result<std::vector<std::string>> trees_of(const Call& call, const RunId& run) {
  store::References found;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(found, store::references_of(db, run));
    return {};
  };
  TRY(call.house.store.read(look));
  for (const std::string& hash : found.environments) {
    if (call.house.environments == nullptr) break;
    std::string tree = call.house.environments->tree_of(hash);
    if (!tree.empty()) found.trees.push_back(std::move(tree));
  }
  return std::move(found.trees);
}

bool named_by(const Call& call, const std::vector<std::string>& trees, const Digest& digest) {
  return std::ranges::any_of(
      trees, [&](const std::string& tree) { return call.house.tree_digests.names(tree, digest); });
}

// What a submission to this workspace may name without sending it.
struct Reachable {
  std::string workspace;
  std::vector<std::string> trees;
};

Result<Reachable> reachable(const Call& call, const Json& body) {
  Reachable found;
  if (call.identity.attempt) {
    TRY_SET(found.workspace, own_workspace(call));
    TRY_SET(found.trees, trees_of(call, call.identity.attempt->run));
  } else {
    TRY_SET(found.workspace, wire::string_member(body, "workspace"));
    // Nothing but what the caller has sent.
    if (found.workspace.empty()) return found;
  }
  TRY(check_workspace(call, found.workspace));
  std::vector<std::string> newest;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(newest, store::newest_snapshots(db, found.workspace, kNewestRuns));
    return {};
  };
  TRY(call.house.store.read(look));
  if (newest.size() > kNewestTrees) newest.resize(kNewestTrees);
  found.trees.insert(found.trees.end(), newest.begin(), newest.end());
  return found;
}

// Here, for this caller: elsewhere's files are not here until their bytes are sent, so that a hash
// neither tells whether a file exists nor gives it away.
bool has_for(const Call& call, const Reachable& from, const Digest& digest) {
  if (!call.house.blobs.has(digest)) return false;
  const std::string owner = owner_of(call);
  if (call.house.claims.has(owner, digest)) return true;
  if (!named_by(call, from.trees, digest)) return false;
  call.house.claims.add(owner, digest);
  return true;
}

// A client that is told that a tree is here sends none of the files it names. So of a tree all of
// them must be here, and stay.
bool has_whole(const Call& call, const Digest& digest) {
  if (!call.house.blobs.has(digest)) return false;
  const auto whole = call.house.trees.check_whole(digest.hex());
  return whole.has_value() || whole.error().kind == ErrorKind::invalid;  // No tree.
}

Result<http::Response> list_missing(const Call& call) {
  TRY_SET(const Json body, body_object(call.request));
  const auto digests = body.find("digests");
  if (digests == body.end() || !digests->is_array()) {
    return fail(ErrorKind::invalid, "digests: must be a list");
  }
  const bool everything = reads_everything(call);
  Reachable from;
  if (!everything) {
    TRY_SET(from, reachable(call, body));
  }
  Json missing = Json::array();
  for (const Json& item : *digests) {
    if (!item.is_string()) return fail(ErrorKind::invalid, "digests: must be strings");
    TRY_SET(const Digest digest, digest_of(item.get_ref<const std::string&>()));
    bool here = everything ? call.house.blobs.has(digest) : has_for(call, from, digest);
    // Clients ask for a tree alone, before they ask for its files.
    if (here && digests->size() == 1) {
      here = has_whole(call, digest) &&
             (everything || check_may_name(call, from.workspace, digest.hex()).has_value());
    }
    if (!here) missing.push_back(item);
  }
  return answer({{"missing", std::move(missing)}});
}

http::Response blob_response(Fd fd, uint64_t size) {
  http::Response response;
  response.headers = {{"content-type", "application/octet-stream"},
                      {"x-content-type-options", "nosniff"}};
  response.file = http::FileBody{std::move(fd), 0, size};
  return response;
}

Result<http::Response> answer_blob(const Call& call, const Digest& digest) {
  TRY_SET(Fd fd, call.house.blobs.open(digest));
  TRY_SET(const uint64_t size, file_size(fd.get(), "a blob"));
  return blob_response(std::move(fd), size);
}

// The same words as for one that is not here: who may not read it does not learn that it is.
std::unexpected<Error> not_here(const Digest& digest) {
  return fail(ErrorKind::not_found, "blob " + digest.hex() + " is not here");
}

Result<http::Response> get_blob(const Call& call) {
  TRY_SET(const Digest digest, digest_of(call.request.param("digest")));
  if (reads_everything(call)) return answer_blob(call, digest);
  if (!call.identity.attempt) {
    return fail(ErrorKind::denied, "a blob is read as a file of a run or of an environment",
                "Use: GET /api/v1/runs/ID/blobs/DIGEST");
  }
  TRY_SET(const std::vector<std::string> trees, trees_of(call, call.identity.attempt->run));
  if (!named_by(call, trees, digest)) return not_here(digest);
  return answer_blob(call, digest);
}

Result<http::Response> get_run_blob(const Call& call) {
  TRY_SET(const Digest digest, digest_of(call.request.param("digest")));
  TRY_SET(const RunId run, readable_run(call));
  TRY_SET(const std::vector<std::string> trees, trees_of(call, run));
  if (!named_by(call, trees, digest)) return not_here(digest);
  return answer_blob(call, digest);
}

Result<http::Response> get_environment_blob(const Call& call) {
  TRY_SET(const Digest digest, digest_of(call.request.param("digest")));
  TRY(check_workspace(call, workspace_in(call)));
  TRY_SET(const EnvironmentName name, parse_environment_name(call.request.param("environment")));
  EnvironmentRecord record;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(record, store::resolve_environment(db, workspace_in(call), name));
    return {};
  };
  TRY(call.house.store.read(look));
  if (!named_by(call, {record.environment.recipe.context}, digest)) return not_here(digest);
  return answer_blob(call, digest);
}

using enum http::Method;
constexpr RouteRow kBlobsRoutes[] = {
    {post, "/api/v1/blobs", Needs::submitter, Attempts::allowed, nullptr,
     "Keeps the blobs of a pack: {\"kept\", \"bad\"}.", "", 0, open_pack},
    {post, "/api/v1/blobs/missing", Needs::submitter, Attempts::allowed, list_missing,
     "Says which of {\"digests\"} must be sent before a submission to {\"workspace\"} names them.",
     "", kMissingBodyMax},
    {get, "/api/v1/blobs/{digest}", Needs::reader, Attempts::allowed, get_blob,
     "The bytes of a blob: to admins, and to an attempt what its run names."},
    {head, "/api/v1/blobs/{digest}", Needs::reader, Attempts::allowed, get_blob,
     "The same without the bytes."},
    {get, "/api/v1/runs/{id}/blobs/{digest}", Needs::reader, Attempts::own_workspace, get_run_blob,
     "The bytes of a blob that the run's code, outputs or environment consist of."},
    {get, "/api/v1/workspaces/{workspace}/environments/{environment}/blobs/{digest}", Needs::reader,
     Attempts::own_workspace, get_environment_blob,
     "The bytes of a blob of the folder that an environment is built from."},
};

}  // namespace

// A tree is named in a submission to a workspace by who has shown to have its bytes and those of
// all its files, or where the workspace has it already. `not_found`, as for one that is not here.
Status check_may_name(const Call& call, std::string_view workspace, std::string_view tree) {
  if (tree.empty() || reads_everything(call)) return {};
  bool known = false;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(known, store::workspace_knows(db, workspace, tree));
    return {};
  };
  TRY(call.house.store.read(look));
  if (known) return {};
  const std::string owner = owner_of(call);
  TRY_SET(const Digest id, digest_of(tree));
  const auto unknown = [&] {
    return fail(ErrorKind::not_found, "snapshot " + std::string(tree) + " is not here");
  };
  if (!call.house.claims.has(owner, id)) return unknown();
  TRY_SET(const auto whole, call.house.trees.tree(tree));
  for (const snapshot::Entry& entry : whole->entries) {
    using snapshot::EntryKind;
    if (entry.kind != EntryKind::file && entry.kind != EntryKind::executable) continue;
    if (!call.house.claims.has(owner, entry.digest)) return unknown();
  }
  return {};
}

std::span<const RouteRow> blob_routes() { return kBlobsRoutes; }

}  // namespace trainyard::api
