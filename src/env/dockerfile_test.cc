#include "env/dockerfile.h"

#include <doctest/doctest.h>

namespace trainyard::env {
namespace {

using Names = std::vector<std::string>;

TEST_CASE("all images that a Dockerfile takes something from are found") {
  CHECK(images_in("FROM debian:12\nRUN true", {}) == Names{"debian:12"});
  CHECK(images_in("# FROM none\nfrom --platform=linux/amd64 \\\n  debian AS base\n", {}) ==
        Names{"debian"});
  CHECK(images_in("FROM a AS Build\nFROM build\nCOPY --from=build /x /x\nCOPY --from=0 /y /y\n"
                  "COPY --chown=1 --from=b:1 /z /z\nRUN --mount=type=bind,from=c true",
                  {}) == Names{"a", "b:1", "c"});
  CHECK(images_in("FROM scratch\nADD x /", {}).empty());
}

TEST_CASE("arguments are filled in, and what cannot be stays to be seen") {
  const std::string text = "ARG A=priv\nARG B=${A}ate\nFROM r.example/${B}:$T\n";
  CHECK(images_in("ARG T\n" + text, {{"T", "2"}}) == Names{"r.example/private:2"});
  CHECK(images_in(text, {{"A", "x"}}) == Names{"r.example/xate:$T"});
  CHECK(images_in("FROM ${X:-trainyard/env:1}", {}) == Names{"${X:-trainyard/env:1}"});
}

TEST_CASE("a name that only this engine may know is told from one of a registry") {
  for (const char* name :
       {"sha256:daaad3", "daaad3d2a86a", "5b", "trainyard/env:cfc903dabacd",
        "localhost/trainyard/env:1", "docker.io/trainyard/env:1", "trainyard-kept:x"}) {
    CAPTURE(name);
    CHECK(may_be_anothers(name));
  }
  for (const char* name : {"debian", "debian:12", "cafe:latest", "r.example/a@sha256:daaad3", ""}) {
    CAPTURE(name);
    CHECK_FALSE(may_be_anothers(name));
  }
}

}  // namespace
}  // namespace trainyard::env
