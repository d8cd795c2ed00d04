#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

#include "api/outputs.h"
#include "api/route.h"
#include "api/run_files.h"

// The files of a run: bytes from ?from on. Headers: x-next, where to read on; x-size, how much
// there is; x-final, 1 when nothing will come behind x-next.
namespace trainyard::api {
namespace {

constexpr uint64_t kViewPiece = 1 << 20;
constexpr uint64_t kViewMax = 64 << 20;  // Of a view in one answer; the reader goes on from x-next.

Result<http::Response> list_run_files(const Call& call) {
  TRY_SET(const Window window, window_of(call.request, kLimitMax));
  TRY_SET(const RunId id, readable_run(call));
  TRY(fold_outputs(call.house, id));
  TRY_SET(const Run run, call.house.control->run(id));
  TRY_SET(const std::vector<ListedFile> files, list_files(call.house, run));
  return answer_page(window, files.size(), [&](size_t i) {
    return Json{{"path", files[i].path}, {"size", files[i].size}, {"kind", files[i].kind}};
  });
}

// What came from a script is shown, never run, whatever it says it is.
http::Response file_response(std::string_view path) {
  http::Response response;
  response.headers = {{"content-type", std::string(content_type(path))},
                      {"x-content-type-options", "nosniff"},
                      {"content-security-policy", "sandbox; default-src 'none'"}};
  return response;
}

struct Place {
  uint64_t next = 0;
  uint64_t size = 0;
  bool final = false;  // Of the run, known before `size` was.
};
void set_place(http::Response& response, const Place& place) {
  response.headers["x-next"] = std::to_string(place.next);
  response.headers["x-size"] = std::to_string(place.size);
  response.headers["x-final"] = place.final && place.next >= place.size ? "1" : "0";
}

void set_body(http::Response& response, Fd fd, uint64_t from, Place place) {
  const uint64_t begin = std::min(from, place.size);
  place.next = std::max(from, place.size);
  response.file = http::FileBody{std::move(fd), begin, place.size - begin};
  set_place(response, place);
}

// Parked when there is nothing new and there may yet be.
Result<std::optional<http::Response>> park_at_end(const Call& call, const RunId& run, bool final,
                                                  bool at_end) {
  if (final || !at_end) return std::nullopt;
  TRY_SET(const auto until, may_wait_until(call));
  if (!until) return std::nullopt;
  return http::Response::parked(House::output_key(run), *until);
}

// A view has no file of its own. A small one is made in memory, a larger one in a file that has no
// name and goes with the answer.
Status set_view(const Call& call, const RunId& run, const ConsoleName& name, uint64_t from,
                Place place, http::Response& response) {
  Fd spool;
  uint64_t next = from;
  while (next < place.size && next - from < kViewMax) {
    const uint64_t wanted = std::min(kViewPiece, place.size - next);
    TRY_SET(logs::Read read, call.house.logs.read(run, name.rank, name.view, next, wanted));
    if (!spool && next + read.bytes.size() < place.size) {
      TRY_SET(spool, open_file(call.house.home.tmp(), O_TMPFILE | O_RDWR, 0600));
    }
    if (spool) {
      TRY(write_all_at(spool.get(), read.bytes, next - from, "a view of a console"));
    } else {
      response.body = std::move(read.bytes);
    }
    next = read.next;
  }
  if (spool) response.file = http::FileBody{std::move(spool), 0, next - from};
  place.next = next;
  set_place(response, place);
  return {};
}

Result<http::Response> get_console(const Call& call, const RunId& run, const ConsoleName& name,
                                   bool final) {
  TRY_SET(const int64_t asked, query_number(call.request, "from", 0));
  TRY_SET(const int64_t lines, query_number(call.request, "tail", -1, {0, INT32_MAX}));
  TRY_SET(const int64_t attempt, query_number(call.request, "attempt", 0, {1, INT32_MAX}));
  auto from = static_cast<uint64_t>(asked);
  Place place{.final = final};
  TRY_SET(place.size, call.house.logs.size(run, name.rank, name.view));
  if (attempt > 0) {
    if (name.view != logs::View::both) {
      return fail(ErrorKind::invalid, "attempt: is known of the whole console only, not of a view");
    }
    const AttemptId id{run, static_cast<int>(attempt)};
    TRY_SET(const logs::Range range, call.house.logs.attempt(id, name.rank));
    from = std::max(from, range.begin);
    place.size = range.end;
  } else if (lines >= 0) {
    TRY_SET(from, call.house.logs.tail(run, name.rank, name.view, static_cast<int>(lines)));
  } else {
    TRY_SET(auto parked, park_at_end(call, run, final, from >= place.size));
    if (parked) return *std::move(parked);
  }
  http::Response response = file_response(name.path);
  if (name.view != logs::View::both) {
    TRY(set_view(call, run, name, from, place, response));
    return response;
  }
  Result<Fd> fd = call.house.logs.open_console(run, name.rank);
  if (fd) {
    set_body(response, *std::move(fd), from, place);
  } else if (fd.error().kind == ErrorKind::not_found) {
    place.next = from;
    set_place(response, place);
  } else {
    return std::unexpected(std::move(fd).error());
  }
  return response;
}

// Null when the run has no such file.
Result<std::optional<http::Response>> get_log(const Call& call, const RunId& run,
                                              std::string_view path, bool final) {
  TRY_SET(const auto files, call.house.store.files(run));
  const std::string_view kept = path == kBuildLogAlias ? kBuildLog : path;
  const auto file = std::ranges::find(files, kept, &store::Store::RunFile::path);
  if (file == files.end()) return std::nullopt;
  TRY_SET(const int64_t from, query_number(call.request, "from", 0));
  Place place{.final = final};
  TRY_SET(Fd fd, call.house.logs.open_file(run, file->number));
  TRY_SET(place.size, file_size(fd.get(), "a log file"));
  TRY_SET(auto parked, park_at_end(call, run, final, static_cast<uint64_t>(from) >= place.size));
  if (parked) return parked;
  http::Response response = file_response(path);
  set_body(response, std::move(fd), static_cast<uint64_t>(from), place);
  return response;
}

http::Response text_response(std::string_view path, const std::string& text, int64_t from,
                             bool final) {
  http::Response response = file_response(path);
  response.body = text.substr(std::min<uint64_t>(static_cast<uint64_t>(from), text.size()));
  set_place(response, {text.size(), text.size(), final});
  return response;
}

Result<http::Response> get_lifecycle(const Call& call, const RunId& run) {
  TRY_SET(const int64_t from, query_number(call.request, "from", 0));
  TRY_SET(const Run whole, call.house.control->run(run));
  const std::string text = lifecycle_text(whole);
  const bool final = is_final(whole.life.status);
  TRY_SET(auto parked, park_at_end(call, run, final, static_cast<uint64_t>(from) >= text.size()));
  if (parked) return *std::move(parked);
  return text_response(kLifecycle, text, from, final);
}

// Null when the run has none.
Result<std::optional<http::Response>> get_versions(const Call& call, const RunId& run) {
  TRY_SET(const int64_t from, query_number(call.request, "from", 0));
  TRY_SET(const Run whole, call.house.control->run(run));
  const std::optional<std::string> text = versions_text(call.house, whole);
  if (!text) return std::nullopt;
  return text_response(kVersionsFile, *text, from, true);
}

// A file of a tree: `path` without the tree's name in front.
Result<http::Response> get_entry(const Call& call, std::string_view tree_id,
                                 std::string_view path) {
  const auto unknown = [&] {
    return fail(ErrorKind::not_found, fmt::format("the run has no file {}", path));
  };
  if (tree_id.empty()) return unknown();
  TRY_SET(const auto tree, call.house.trees.tree(tree_id));
  const snapshot::Entry* entry = find_entry(*tree, path);
  if (entry == nullptr || entry->kind == snapshot::EntryKind::folder) return unknown();
  if (entry->kind == snapshot::EntryKind::symlink) {
    return fail(ErrorKind::conflict,
                fmt::format("{} is a symbolic link to {}; links are not followed", path,
                            to_utf8(entry->target)));
  }
  TRY_SET(const int64_t from, query_number(call.request, "from", 0));
  TRY_SET(Fd fd, call.house.blobs.open(entry->digest));
  http::Response response = file_response(path);
  set_body(response, std::move(fd), static_cast<uint64_t>(from),
           {.size = entry->size, .final = true});
  return response;
}

Result<http::Response> get_file(const Call& call) {
  constexpr std::string_view kOutputs = "outputs/";
  constexpr std::string_view kSnapshot = "snapshot/";
  const std::string_view path = call.request.param("path");
  TRY_SET(const RunId run, readable_run(call));
  TRY_SET(const auto glance, call.house.watch.glance(run));
  if (const auto name = find_console_name(path, glance->ranks)) {
    return get_console(call, run, *name, glance->final());
  }
  if (path == kLifecycle) return get_lifecycle(call, run);
  if (path.starts_with(kOutputs) || path.starts_with(kSnapshot)) {
    TRY(fold_outputs(call.house, run));
    TRY_SET(const Run whole, call.house.store.run(run));
    return path.starts_with(kOutputs)
               ? get_entry(call, whole.outputs, path.substr(kOutputs.size()))
               : get_entry(call, whole.spec.snapshot, path.substr(kSnapshot.size()));
  }
  TRY_SET(auto log, get_log(call, run, path, glance->final()));
  if (!log && path == kVersionsFile) {
    TRY_SET(log, get_versions(call, run));
  }
  if (log) return *std::move(log);
  // A name as upload_file() was given it: the file is in outputs/.
  TRY(fold_outputs(call.house, run));
  TRY_SET(const Run whole, call.house.store.run(run));
  Result<http::Response> uploaded = get_entry(call, whole.outputs, path);
  if (uploaded || uploaded.error().kind != ErrorKind::not_found) return uploaded;
  return fail(ErrorKind::not_found, fmt::format("the run has no file {}", to_utf8(path)),
              "List them with: GET /api/v1/runs/ID/files");
}

Result<http::Response> tree_response(const Call& call, std::string_view id) {
  http::Response response = http::Response::text("");
  if (id.empty()) {
    response.body = snapshot::encode({});
    return response;
  }
  TRY_SET(response.body, call.house.trees.text(id));
  return response;
}

Result<http::Response> get_outputs(const Call& call) {
  TRY_SET(const RunId id, readable_run(call));
  TRY(fold_outputs(call.house, id));
  TRY_SET(const Run run, call.house.store.run(id));
  return tree_response(call, run.outputs);
}

Result<http::Response> get_snapshot(const Call& call) {
  TRY_SET(const RunId id, readable_run(call));
  TRY_SET(const Run run, call.house.store.run(id));
  return tree_response(call, run.spec.snapshot);
}

using enum http::Method;
constexpr RouteRow kFilesRoutes[] = {
    {get, "/api/v1/runs/{id}/files", Needs::reader, Attempts::own_workspace, list_run_files,
     "Lists the files of a run: console, logs, outputs, code.", "limit cursor"},
    {get, "/api/v1/runs/{id}/files/{path...}", Needs::reader, Attempts::own_workspace, get_file,
     "The bytes of a file from `from` on, or the last `tail` lines of a console.",
     "from wait tail attempt"},
    {get, "/api/v1/runs/{id}/outputs", Needs::reader, Attempts::own_workspace, get_outputs,
     "The tree of what the run put out, as text."},
    {get, "/api/v1/runs/{id}/snapshot", Needs::reader, Attempts::own_workspace, get_snapshot,
     "The tree of the run's code, as text."},
};

}  // namespace

std::span<const RouteRow> file_routes() { return kFilesRoutes; }

}  // namespace trainyard::api
