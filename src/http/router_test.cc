#include "http/router.h"

#include <doctest/doctest.h>

namespace trainyard::http {

namespace {

void add(Router& router, Method method, std::string pattern) {
  Route route;
  route.method = method;
  route.pattern = std::move(pattern);
  route.handler = [](const Request&) { return Response(); };
  router.add(std::move(route));
}

std::string found(const Router& router, Method method, std::string_view path) {
  const Router::Match match = router.find(method, path);
  if (match.route == nullptr) return match.path_known ? "405" : "404";
  return match.route->pattern;
}

}  // namespace

TEST_CASE("a route is found by path and method") {
  Router router;
  add(router, Method::get, "/");
  add(router, Method::get, "/api/v1/runs");
  add(router, Method::post, "/api/v1/runs");
  add(router, Method::get, "/api/v1/runs/{id}");
  add(router, Method::post, "/api/v1/runs/{id}/cancel");
  CHECK(found(router, Method::get, "/") == "/");
  CHECK(found(router, Method::get, "/api/v1/runs") == "/api/v1/runs");
  CHECK(router.find(Method::post, "/api/v1/runs").route->method == Method::post);
  CHECK(found(router, Method::get, "/api/v1/runs/x") == "/api/v1/runs/{id}");
  CHECK(router.find(Method::get, "/api/v1/runs/x").params.at("id") == "x");
  CHECK(found(router, Method::del, "/api/v1/runs/x") == "405");
  CHECK(found(router, Method::get, "/api/v1/runs/x/cancel") == "405");
  for (const char* none : {"/api/v1/runs/", "/api/v1/run", "/api//v1/runs", "/api/v1/runs/x/y", "",
                           "api", "/API/v1/runs"}) {
    CAPTURE(none);
    CHECK(found(router, Method::get, none) == "404");
  }
}

TEST_CASE("the rest of a path is one parameter, slashes and all") {
  Router router;
  add(router, Method::get, "/runs/{id}/files/{path...}");
  const auto path = [&](std::string_view url) {
    return router.find(Method::get, url).params.at("path");
  };
  CHECK(path("/runs/r/files/a") == "a");
  CHECK(path("/runs/r/files/a/b%20c/d") == "a/b c/d");
  CHECK(path("/runs/r/files/") == "");
  CHECK(path("/runs/r/files/a//b") == "a//b");
  CHECK(found(router, Method::get, "/runs/r/files") == "404");
}

TEST_CASE("an encoded slash stays within its part, and dots are handed on as they are") {
  Router router;
  add(router, Method::get, "/runs/{id}");
  add(router, Method::get, "/files/{path...}");
  CHECK(router.find(Method::get, "/runs/..%2F..%2Fetc").params.at("id") == "../../etc");
  CHECK(router.find(Method::get, "/files/a/..%2Fb").params.at("path") == "a/../b");
  CHECK(found(router, Method::get, "/runs/../files/x") == "404");
  CHECK(found(router, Method::get, "/runs%2Fx") == "404");
  CHECK(found(router, Method::get, "/%72uns/x") == "/runs/{id}");
  CHECK(found(router, Method::get, "/runs/%zz") == "404");
}

TEST_CASE("the more special pattern wins, whatever the order they were added in") {
  Router router;
  add(router, Method::get, "/{rest...}");
  add(router, Method::get, "/blobs/{digest}");
  add(router, Method::get, "/blobs/missing");
  add(router, Method::get, "/{kind}/missing");
  CHECK(found(router, Method::get, "/blobs/missing") == "/blobs/missing");
  CHECK(found(router, Method::get, "/blobs/ab") == "/blobs/{digest}");
  CHECK(found(router, Method::get, "/users/missing") == "/{kind}/missing");
  CHECK(found(router, Method::get, "/users/x/y") == "/{rest...}");
}

TEST_CASE("a GET route answers HEAD unless there is one for it") {
  Router router;
  add(router, Method::get, "/a/{x}");
  add(router, Method::get, "/b");
  add(router, Method::head, "/b");
  add(router, Method::post, "/c");
  CHECK(router.find(Method::head, "/a/1").route->method == Method::get);
  CHECK(router.find(Method::head, "/a/1").params.at("x") == "1");
  CHECK(router.find(Method::head, "/b").route->method == Method::head);
  CHECK(found(router, Method::head, "/c") == "405");
}

}  // namespace trainyard::http
