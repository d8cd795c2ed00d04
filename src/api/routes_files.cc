#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

#include "api/outputs.h"
#include "api/route.h"
#include "api/run_files.h"

// The files of a run: bytes from ?from on, or those of a Range header. Headers: x-next, where to
// read on; x-size, how much there is; x-final, 1 when nothing will come behind x-next.
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
                      {"accept-ranges", "bytes"},
                      {"content-security-policy", "sandbox; default-src 'none'"}};
  return response;
}

// The bytes that are asked for, of a file of a known size.
struct Part {
  uint64_t from = 0;
  uint64_t end = 0;
  bool ranged = false;  // By a Range header.
};

std::optional<uint64_t> byte_count(std::string_view text) {
  const Result<int64_t> number = parse_int(text, "range");
  if (!number || *number < 0 || !is_digit(text.front())) return std::nullopt;
  return static_cast<uint64_t>(*number);
}

// "bytes=A-B", "bytes=A-", "bytes=-LAST". Anything else is no range and the whole file is the
// answer, as HTTP has it; so are several ranges.
std::optional<Part> parse_range(std::string_view header, uint64_t size) {
  constexpr std::string_view kUnit = "bytes=";
  const size_t dash = header.find('-');
  if (!header.starts_with(kUnit) || dash == std::string_view::npos) return std::nullopt;
  const std::string_view first = header.substr(kUnit.size(), dash - kUnit.size());
  const std::string_view last = header.substr(dash + 1);
  const std::optional<uint64_t> from = byte_count(first);
  const std::optional<uint64_t> to = byte_count(last);
  if ((!first.empty() && !from) || (!last.empty() && !to) || (!from && !to)) return std::nullopt;
  if (!from) return Part{size - std::min(size, *to), size, true};
  if (to && *to < *from) return std::nullopt;
  return Part{*from, to && *to < size ? *to + 1 : size, true};
}

Result<Part> asked_part(const Call& call, uint64_t size) {
  if (const auto part = parse_range(call.request.header("range"), size)) return *part;
  TRY_SET(const int64_t from, query_number(call.request, "from", 0));
  return Part{.from = static_cast<uint64_t>(from), .end = size};
}

// A range beyond the end is refused; the answer to any other says what it is.
void set_range(http::Response& response, const Part& part, uint64_t size, uint64_t end) {
  if (!part.ranged) return;
  if (part.from >= size) {
    response = http::Response::text("the range begins behind the end of the file\n", 416);
    response.headers["content-range"] = fmt::format("bytes */{}", size);
    return;
  }
  response.status = 206;
  response.headers["content-range"] = fmt::format("bytes {}-{}/{}", part.from, end - 1, size);
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

void set_body(http::Response& response, Fd fd, const Part& part, Place place) {
  const uint64_t begin = std::min(part.from, part.end);
  place.next = std::max(part.from, part.end);
  response.file = http::FileBody{std::move(fd), begin, part.end - begin};
  set_place(response, place);
  set_range(response, part, place.size, part.end);
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
Status set_view(const Call& call, const RunId& run, const ConsoleName& name, const Part& part,
                Place place, http::Response& response) {
  Fd spool;
  const uint64_t from = part.from;
  uint64_t next = from;
  while (next < part.end && next - from < kViewMax) {
    const uint64_t wanted = std::min(kViewPiece, part.end - next);
    TRY_SET(logs::Read read, call.house.logs.read(run, name.rank, name.view, next, wanted));
    if (!spool && next + read.bytes.size() < part.end) {
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
  set_range(response, part, place.size, next);
  return {};
}

Result<http::Response> get_console(const Call& call, const RunId& run, const ConsoleName& name,
                                   bool final) {
  TRY_SET(const int64_t lines, query_number(call.request, "tail", -1, {0, INT32_MAX}));
  TRY_SET(const int64_t attempt, query_number(call.request, "attempt", 0, {1, INT32_MAX}));
  Place place{.final = final};
  TRY_SET(place.size, call.house.logs.size(run, name.rank, name.view));
  TRY_SET(Part part, asked_part(call, place.size));
  if (attempt > 0) {
    if (name.view != logs::View::both) {
      return fail(ErrorKind::invalid, "attempt: is known of the whole console only, not of a view");
    }
    const AttemptId id{run, static_cast<int>(attempt)};
    TRY_SET(const logs::Range range, call.house.logs.attempt(id, name.rank));
    part = {.from = std::max(part.from, range.begin), .end = range.end};
    place.size = range.end;
  } else if (lines >= 0) {
    part = {.end = place.size};
    TRY_SET(part.from, call.house.logs.tail(run, name.rank, name.view, static_cast<int>(lines)));
  } else {
    TRY_SET(auto parked, park_at_end(call, run, final, part.from >= place.size));
    if (parked) return *std::move(parked);
  }
  http::Response response = file_response(name.path);
  if (name.view != logs::View::both) {
    TRY(set_view(call, run, name, part, place, response));
    return response;
  }
  Result<Fd> fd = call.house.logs.open_console(run, name.rank);
  if (fd) {
    set_body(response, *std::move(fd), part, place);
  } else if (fd.error().kind == ErrorKind::not_found) {
    place.next = part.from;
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
  Place place{.final = final};
  TRY_SET(Fd fd, call.house.logs.open_file(run, file->number));
  TRY_SET(place.size, file_size(fd.get(), "a log file"));
  TRY_SET(const Part part, asked_part(call, place.size));
  TRY_SET(auto parked, park_at_end(call, run, final, part.from >= place.size));
  if (parked) return parked;
  http::Response response = file_response(path);
  set_body(response, std::move(fd), part, place);
  return response;
}

// What is made from the run's row, when it has such a file.
Result<std::optional<http::Response>> get_made(const Call& call, const RunId& run,
                                               std::string_view path) {
  TRY_SET(const Run whole, call.house.control->run(run));
  std::optional<std::string> text = path == kLifecycle      ? lifecycle_text(whole)
                                    : path == kVersionsFile ? versions_text(call.house, whole)
                                                            : classic_text(whole, path);
  if (!text) return std::nullopt;
  const bool final = path == kVersionsFile || is_final(whole.life.status);
  TRY_SET(const Part part, asked_part(call, text->size()));
  TRY_SET(auto parked, park_at_end(call, run, final, part.from >= text->size()));
  if (parked) return *std::move(parked);
  http::Response response = file_response(path);
  const uint64_t begin = std::min(part.from, part.end);
  response.body = text->substr(begin, part.end - begin);
  set_place(response, {std::max(part.from, part.end), text->size(), final});
  set_range(response, part, text->size(), part.end);
  return response;
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
  TRY_SET(const Part part, asked_part(call, entry->size));
  TRY_SET(Fd fd, call.house.blobs.open(entry->digest));
  http::Response response = file_response(path);
  set_body(response, std::move(fd), part, {.size = entry->size, .final = true});
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
  if (path.starts_with(kOutputs) || path.starts_with(kSnapshot)) {
    TRY(fold_outputs(call.house, run));
    TRY_SET(const Run whole, call.house.store.run(run));
    return path.starts_with(kOutputs)
               ? get_entry(call, whole.outputs, path.substr(kOutputs.size()))
               : get_entry(call, whole.spec.snapshot, path.substr(kSnapshot.size()));
  }
  TRY_SET(auto log, get_log(call, run, path, glance->final()));
  if (!log) {
    TRY_SET(log, get_made(call, run, path));
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
     "The bytes of a file from `from` on, of a Range header, or the last `tail` lines of a "
     "console.",
     "from wait tail attempt user expires signature", 0, nullptr, true},
    {get, "/api/v1/runs/{id}/outputs", Needs::reader, Attempts::own_workspace, get_outputs,
     "The tree of what the run put out, as text."},
    {get, "/api/v1/runs/{id}/snapshot", Needs::reader, Attempts::own_workspace, get_snapshot,
     "The tree of the run's code, as text."},
};

}  // namespace

std::span<const RouteRow> file_routes() { return kFilesRoutes; }

}  // namespace trainyard::api
