#include "api/reach.h"

#include "api/test_yard.h"
#include "blob/pack.h"

// Tests which blobs a caller may read, and which it may name in a submission.
namespace trainyard::api {
namespace {

using enum http::Method;

std::string pack_of(std::string_view bytes) {
  return blob::pack_head({sha256(bytes), bytes.size()}) + std::string(bytes);
}

struct Files {
  std::string file;
  std::string tree;

  explicit Files(const std::string& bytes) : file(bytes) {
    snapshot::Tree made;
    made.entries.push_back({.path = "a.py", .size = bytes.size(), .digest = sha256(bytes)});
    tree = snapshot::encode(made);
  }
  std::string file_id() const { return sha256(file).hex(); }
  std::string tree_id() const { return sha256(tree).hex(); }
  std::string pack() const { return pack_of(file) + pack_of(tree); }
};

struct Visitors {
  Yard yard{{}, 8};
  Files mine{"mine"};
  Files theirs{"theirs"};
  std::string own = attempt_of("mine-1", "default", mine);
  std::string stranger = attempt_of("theirs-1", "theirs", theirs);
  std::string sam = yard.token_of("sam", Role::submitter);

  std::string attempt_of(const std::string& id, const std::string& workspace, const Files& files) {
    for (const std::string* bytes : {&files.file, &files.tree}) {
      REQUIRE(yard.blobs->put(sha256(*bytes), *bytes).has_value());
    }
    REQUIRE(yard.blobs->sync().has_value());
    if (workspace != "default") {
      REQUIRE(yard.store->create_workspace({.name = workspace}).has_value());
    }
    RunSpec spec;
    spec.workspace = workspace;
    spec.experiment = "e";
    spec.command = {"true"};
    spec.snapshot = files.tree_id();
    REQUIRE(yard.control->submit({RunId{id}, spec, "owner"}).has_value());
    return yard.place(RunId{id});
  }
  int status(const std::string& token, const std::string& url) {
    http::Client client = yard.over_tcp(token);
    return fetch(client, url).status;
  }
  Json missing(const std::string& token, const Json& digests, const std::string& workspace) {
    http::Client client = yard.over_tcp(token);
    const Json body = {{"digests", digests}, {"workspace", workspace}};
    return json_of(send(client, post, "/api/v1/blobs/missing", wire::dump(body)))["missing"];
  }
  int submit(const std::string& token, const std::string& id, const std::string& workspace,
             const Files& files) {
    http::Client client = yard.over_tcp(token);
    const Json body = {{"id", id},
                       {"spec",
                        {{"workspace", workspace},
                         {"experiment", "e"},
                         {"command", {"true"}},
                         {"snapshot", files.tree_id()}}}};
    return send(client, post, "/api/v1/runs", wire::dump(body)).status;
  }
};

}  // namespace

TEST_CASE("a blob is read by who can reach a run that names it, and by its hash alone by nobody") {
  Visitors team;
  const std::string blobs = "/api/v1/blobs/";
  CHECK(team.status(team.own, blobs + team.mine.file_id()) == 200);
  CHECK(team.status(team.own, blobs + team.mine.tree_id()) == 200);
  CHECK(team.status(team.own, blobs + team.theirs.file_id()) == 404);
  CHECK(team.status(team.stranger, blobs + team.mine.file_id()) == 404);
  CHECK(team.status(team.stranger, blobs + team.theirs.file_id()) == 200);
  CHECK(team.status(team.sam, blobs + team.mine.file_id()) == 403);
  CHECK(team.status(team.yard.token_of("ada", Role::admin), blobs + team.mine.file_id()) == 200);

  const std::string run = "/api/v1/runs/mine-1/blobs/";
  CHECK(team.status(team.sam, run + team.mine.file_id()) == 200);
  CHECK(team.status(team.sam, run + team.theirs.file_id()) == 404);
  CHECK(team.status(team.stranger, run + team.mine.file_id()) == 403);
}

TEST_CASE("a submission names only files that were sent, or that its workspace has") {
  Visitors team;
  // By its hash alone, though the server has it.
  CHECK(team.submit(team.sam, "thief", "default", team.theirs) == 404);
  CHECK(team.missing(team.sam, {team.theirs.tree_id()}, "default").size() == 1);
  CHECK(team.missing(team.sam, {team.theirs.file_id(), sha256("x").hex()}, "default").size() == 2);
  // Nor by a tree of one's own that names another's file.
  snapshot::Tree made;
  made.entries.push_back({.path = "b.py", .size = 6, .digest = sha256("theirs")});
  Files sly("theirs");
  sly.tree = snapshot::encode(made);
  http::Client sam = team.yard.over_tcp(team.sam);
  REQUIRE(send(sam, post, "/api/v1/blobs", pack_of(sly.tree)).status == 200);
  CHECK(team.submit(team.sam, "sly", "default", sly) == 404);
  // Nor by sending other bytes under its name.
  const std::string wrong = blob::pack_head({sha256("theirs"), 6}) + "THEIRS";
  CHECK(json_of(send(sam, post, "/api/v1/blobs", wrong))["bad"].size() == 1);
  CHECK(team.submit(team.sam, "sly", "default", sly) == 404);

  // What the workspace has is not sent again; a file of its newest code neither.
  CHECK(team.submit(team.sam, "again", "default", team.mine) == 201);
  CHECK(team.missing(team.sam, {team.mine.file_id(), sha256("x").hex()}, "default").size() == 1);
  // What was sent may be named.
  REQUIRE(send(sam, post, "/api/v1/blobs", team.theirs.pack()).status == 200);
  CHECK(team.missing(team.sam, {team.theirs.tree_id()}, "default").empty());
  CHECK(team.submit(team.sam, "honest", "default", team.theirs) == 201);
  // An attempt's token names what its own workspace has.
  CHECK(team.submit(team.own, "child", "default", team.mine) == 201);
}

TEST_CASE("a claim is its owner's alone") {
  MonotoneClock clock;
  Claims claims(clock);
  claims.add("ada", sha256("1"));
  CHECK(claims.has("ada", sha256("1")));
  CHECK(!claims.has("ada", sha256("2")));
  CHECK(!claims.has("bob", sha256("1")));
}

}  // namespace trainyard::api
