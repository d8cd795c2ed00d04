#include "api/outputs.h"
#include "api/route.h"
#include "base/file.h"

// Files that programs outside hand in for their interactive runs.
namespace trainyard::api {
namespace {

// Into the blobs as it comes.
class OutputSink : public http::BodySink {
 public:
  explicit OutputSink(std::unique_ptr<blob::Writer> writer) : writer_(std::move(writer)) {}

  Status write(std::string_view bytes) override {
    hasher_.add(bytes);
    size_ += bytes.size();
    return writer_->write(bytes);
  }
  Result<snapshot::Entry> finish(std::string path) {
    snapshot::Entry entry;
    entry.path = std::move(path);
    entry.size = size_;
    entry.digest = hasher_.finish();
    TRY(writer_->keep(entry.digest));
    return entry;
  }

 private:
  std::unique_ptr<blob::Writer> writer_;
  Hasher hasher_;
  uint64_t size_ = 0;
};

Result<http::Upload> put_output(const Call& call) {
  TRY_SET(const RunId id, writable_run(call));
  std::string path(call.request.param("path"));
  TRY(check_relative_path(path));
  TRY_SET(const Run run, call.house.store.run(id));
  if (!run.spec.interactive || is_final(run.life.status)) {
    return fail(ErrorKind::conflict, "run " + id.value + " takes no outputs from outside",
                "A run's script writes them into its folder outputs/.");
  }
  TRY_SET(std::unique_ptr<blob::Writer> writer, call.house.blobs.create());
  auto sink = std::make_unique<OutputSink>(std::move(writer));
  OutputSink& bytes = *sink;
  http::Upload upload;
  upload.sink = std::move(sink);
  // The sink lives until the answer is made.
  upload.finish = [&house = call.house, &bytes, id, path](const http::Request&) -> http::Response {
    Result<snapshot::Entry> entry = bytes.finish(path);
    const uint64_t size = entry ? entry->size : 0;
    const Status added =
        entry ? add_output(house, id, *std::move(entry)) : std::unexpected(entry.error());
    if (!added) {
      return answer(wire::error_to_json(added.error()), wire::http_status(added.error().kind));
    }
    return answer({{"path", path}, {"size", size}});
  };
  return upload;
}

using enum http::Method;
constexpr RouteRow kOutputsRoutes[] = {
    {put, "/api/v1/runs/{id}/outputs/{path...}", Needs::submitter, Attempts::own_workspace, nullptr,
     "Keeps the body as a file of an interactive run's outputs.", "", 0, put_output},
};

}  // namespace

std::span<const RouteRow> output_routes() { return kOutputsRoutes; }

}  // namespace trainyard::api
