#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "wire/json.h"

namespace trainyard::container {

// A layout of the OCI, written file by file.
class TestLayout {
 public:
  explicit TestLayout(fs::path folder) : folder_(std::move(folder)) {
    REQUIRE(make_dirs(folder_ / "blobs" / "sha256"));
    REQUIRE(write_file(folder_ / "oci-layout", R"({"imageLayoutVersion":"1.0.0"})"));
  }
  const fs::path& folder() const { return folder_; }

  std::string blob(const std::string& bytes) const {
    const std::string hex = sha256(bytes).hex();
    REQUIRE(write_file(folder_ / "blobs" / "sha256" / hex, bytes));
    return "sha256:" + hex;
  }
  // Adds an image to index.json; the digest of its configuration.
  std::string image(const std::string& tag, const std::vector<std::string>& layers,
                    const std::string& architecture = "") {
    const wire::Json config{{"config",
                             {{"Entrypoint", {"/bin/tool"}},
                              {"Cmd", {"--help"}},
                              {"Env", {"PATH=/bin", "A=b=c"}},
                              {"WorkingDir", "/work"},
                              {"User", "1000"}}},
                            {"history", tag}};
    const std::string id = blob(wire::dump(config));
    wire::Json manifest{{"schemaVersion", 2}, {"config", {{"digest", id}}}};
    manifest["layers"] = wire::Json::array();
    for (const std::string& layer : layers) manifest["layers"].push_back({{"digest", blob(layer)}});
    wire::Json entry{{"digest", blob(wire::dump(manifest))},
                     {"annotations", {{"org.opencontainers.image.ref.name", tag}}}};
    if (!architecture.empty()) {
      entry["platform"] = {{"os", "linux"}, {"architecture", architecture}};
    }
    index_["manifests"].push_back(entry);
    REQUIRE(write_file(folder_ / "index.json", wire::dump(index_)));
    return id;
  }

 private:
  fs::path folder_;
  wire::Json index_{{"schemaVersion", 2}, {"manifests", wire::Json::array()}};
};

}  // namespace trainyard::container
