#include "env/dockerfile.h"

#include <doctest/doctest.h>

#include <algorithm>

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

TEST_CASE("lines are joined as an engine joins them, and none is hidden by it") {
  CHECK(images_in("FROM a\nRUN echo `\nFROM dir:/x\n", {}) == Names{"a", "dir:/x"});
  const Names found = images_in("# escape=`\nFROM `\n\n# x\n dir:/x\nRUN c:\\\nFROM oci:/y\n", {});
  CHECK(std::ranges::find(found, "dir:/x") != found.end());
  CHECK(std::ranges::find(found, "oci:/y") != found.end());
  CHECK(images_in("# x\n# escape=`\nFROM a\nRUN echo `\nFROM dir:/x\n", {}) ==
        Names{"a", "dir:/x"});
  CHECK(images_in("FROM \\\n\ndir:/x\n", {}) == Names{"dir:/x"});
}

TEST_CASE("a stage that is none for the engine hides no image") {
  CHECK(images_in("FROM a\nRUN <<EOF\nFROM b AS 5bdead\nEOF\nFROM 5bdead\n", {}) ==
        Names{"a", "b", "5bdead"});
  CHECK(images_in("FROM a AS dir:/x\nFROM dir:/x\n", {}) == Names{"a", "dir:/x"});
  CHECK(images_in("FROM a AS x\nFROM b\nCOPY --from=1 /y /y\nCOPY --from=2 /y /y", {}) ==
        Names{"a", "b", "2"});
}

TEST_CASE("a name that an engine reads as a place of this machine is told from an image") {
  for (const char* name : {"docker-archive:/x.tar", "oci-archive:/x", "oci:/x:1", "dir:/x",
                           "docker-daemon:x:1", "containers-storage:x", "OCI:/x"}) {
    CAPTURE(name);
    CHECK(names_transport(name));
  }
  for (const char* name : {"debian:12", "docker://debian", "r.example:5000/dir", "dir", ""}) {
    CAPTURE(name);
    CHECK_FALSE(names_transport(name));
  }
  CHECK(is_plain_image_name("r.example:5000/a_b/c-d:1.0@sha256:12"));
  for (const char* name : {"docker\\-archive:/x", "${X:-a}", "a`b", "a b"}) {
    CAPTURE(name);
    CHECK_FALSE(is_plain_image_name(name));
  }
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
