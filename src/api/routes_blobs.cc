#include "api/route.h"
#include "blob/pack.h"

namespace trainyard::api {
namespace {

constexpr size_t kMissingBodyMax = 64 << 20;  // Some 900,000 digests.

// A digest in the URL or in a list.
Result<Digest> digest_of(std::string_view hex) {
  Result<Digest> digest = Digest::from_hex(hex);
  if (!digest) return fail(ErrorKind::invalid, "not a SHA-256 in hex: " + std::string(hex));
  return digest;
}

class PackSink : public http::BodySink {
 public:
  explicit PackSink(blob::Store& blobs) : reader_(blobs) {}
  Status write(std::string_view bytes) override { return reader_.write(bytes); }
  blob::PackReader& reader() { return reader_; }

 private:
  blob::PackReader reader_;
};

Result<http::Upload> open_pack(const Call& call) {
  auto sink = std::make_unique<PackSink>(call.house.blobs);
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
  Json missing = Json::array();
  for (const Json& item : *digests) {
    if (!item.is_string()) return fail(ErrorKind::invalid, "digests: must be strings");
    TRY_SET(const Digest digest, digest_of(item.get_ref<const std::string&>()));
    // Clients ask for a tree alone, before they ask for its files.
    const bool here =
        digests->size() == 1 ? has_whole(call, digest) : call.house.blobs.has(digest);
    if (!here) missing.push_back(item);
  }
  return answer({{"missing", std::move(missing)}});
}

Result<http::Response> get_blob(const Call& call) {
  TRY_SET(const Digest digest, digest_of(call.request.param("digest")));
  TRY_SET(Fd fd, call.house.blobs.open(digest));
  TRY_SET(const uint64_t size, file_size(fd.get(), "a blob"));
  http::Response response;
  response.headers = {{"content-type", "application/octet-stream"},
                      {"x-content-type-options", "nosniff"}};
  response.file = http::FileBody{std::move(fd), 0, size};
  return response;
}

using enum http::Method;
constexpr RouteRow kBlobsRoutes[] = {
    {post, "/api/v1/blobs", Needs::submitter, Attempts::allowed, nullptr,
     "Keeps the blobs of a pack: {\"kept\", \"bad\"}.", "", 0, open_pack},
    {post, "/api/v1/blobs/missing", Needs::submitter, Attempts::allowed, list_missing,
     "Says which of {\"digests\"} are not here.", "", kMissingBodyMax},
    {get, "/api/v1/blobs/{digest}", Needs::reader, Attempts::allowed, get_blob,
     "The bytes of a blob."},
    {head, "/api/v1/blobs/{digest}", Needs::reader, Attempts::allowed, get_blob,
     "Says whether a blob is here, and its size."},
};

}  // namespace

std::span<const RouteRow> blob_routes() { return kBlobsRoutes; }

}  // namespace trainyard::api
