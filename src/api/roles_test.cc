// Who may use which route: the table, and real requests over TCP that compare the server with it.
#include <algorithm>
#include <array>

#include "api/test_yard.h"

namespace trainyard::api {
namespace {

using enum http::Method;

// Who asks. The owner is the submitter whose run is in the URL. The attempts' tokens are of that
// run, of another run in its workspace, and of a run in another workspace.
enum Who { nobody, reader, submitter, owner, admin, own, sibling, stranger };
const std::array<std::string, 8> kWho = {
    "nobody",   "a reader",        "a submitter",         "its owner",
    "an admin", "its own attempt", "a sibling's attempt", "a stranger's attempt"};

struct RoleRow {
  http::Method method;
  std::string_view pattern;
  // One letter for each of Who: y, they may; n, 403; -, 401.
  std::string_view may;
  std::string_view body = {};  // Where a route looks at its body before it knows whose it is.
};

constexpr std::string_view kSubmission =
    R"({"id":"new-run-1","spec":{"workspace":"default","experiment":"e","command":["true"]}})";

// One line for each route. The letters: nobody reader submitter owner admin, and the attempts own
// sibling stranger.
constexpr RoleRow kTable[] = {
    {get, "/", "yyyyy yyy"},  // A page that says what this is, and nothing of what is in it.
    {get, "/health", "yyyyy yyy"},
    {get, "/version", "yyyyy yyy"},
    {get, "/metrics", "-yyyy nnn"},
    {get, "/api/v1/openapi.json", "-yyyy yyy"},
    {get, "/api/v1/server", "-yyyy yyy"},
    {post, "/api/v1/server/stop", "-nnnn nnn"},  // Only over the Unix socket, as the next two.
    {post, "/api/v1/server/backup", "-nnnn nnn"},
    {post, "/api/v1/server/check", "-nnnn nnn"},
    {post, "/api/v1/server/gc", "-nnny nnn"},
    {get, "/api/v1/server/gc", "-nnny nnn"},
    {get, "/api/v1/targets", "-yyyy yyy"},

    {get, "/api/v1/users", "-yyyy nnn"},
    {post, "/api/v1/users", "-nnny nnn"},
    {del, "/api/v1/users/{name}", "-nnny nnn"},
    {patch, "/api/v1/users/{name}", "-nnny nnn"},
    {get, "/api/v1/tokens", "-yyyy nnn"},
    {post, "/api/v1/tokens", "-yyyy nnn"},
    {del, "/api/v1/tokens/{id}", "-yyyy nnn"},

    {get, "/api/v1/workspaces", "-yyyy yyy"},  // An attempt sees its own alone.
    {post, "/api/v1/workspaces", "-nnny nnn"},
    {get, "/api/v1/workspaces/{name}", "-yyyy yyn"},
    {patch, "/api/v1/workspaces/{name}", "-nnny nnn"},
    {del, "/api/v1/workspaces/{name}", "-nnny nnn"},
    {get, "/api/v1/workspaces/{name}/experiments", "-yyyy yyn"},
    {get, "/api/v1/workspaces/{name}/members", "-yyyy nnn"},
    {put, "/api/v1/workspaces/{name}/members/{user}", "-nnny nnn"},  // Or its own admin.
    {del, "/api/v1/workspaces/{name}/members/{user}", "-nnny nnn"},
    {del, "/api/v1/workspaces/{name}/experiments", "-nyyy nnn"},  // Whose runs are all their own.
    {post, "/api/v1/workspaces/{name}/experiments/restore", "-nyyy nnn"},
    {get, "/api/v1/workspaces/{name}/secrets", "-yyyy nnn"},  // Names alone.
    {put, "/api/v1/workspaces/{name}/secrets/{secret}", "-nyyy nnn"},
    {del, "/api/v1/workspaces/{name}/secrets/{secret}", "-nyyy nnn"},

    {get, "/api/v1/workspaces/{workspace}/computes", "-yyyy nnn"},
    {post, "/api/v1/workspaces/{workspace}/computes", "-nnny nnn", R"({"name":"c"})"},
    {get, "/api/v1/workspaces/{workspace}/computes/{compute}", "-yyyy nnn"},
    {patch, "/api/v1/workspaces/{workspace}/computes/{compute}", "-nnny nnn"},
    {del, "/api/v1/workspaces/{workspace}/computes/{compute}", "-nnny nnn"},
    {post, "/api/v1/workspaces/{workspace}/computes/{compute}/pause", "-nnny nnn"},
    {post, "/api/v1/workspaces/{workspace}/computes/{compute}/resume", "-nnny nnn"},
    {get, "/api/v1/workspaces/{workspace}/computes/{compute}/nodes", "-yyyy nnn"},
    {get, "/api/v1/workspaces/{workspace}/environments", "-yyyy yyn"},
    {post, "/api/v1/workspaces/{workspace}/environments", "-nyyy nnn"},
    {get, "/api/v1/workspaces/{workspace}/environments/{environment}", "-yyyy yyn"},
    {get, "/api/v1/workspaces/{workspace}/environments/{environment}/state", "-nyyy nnn"},
    {patch, "/api/v1/workspaces/{workspace}/environments/{environment}", "-nyyy nnn"},
    {del, "/api/v1/workspaces/{workspace}/environments/{environment}", "-nyyy nnn"},
    {post, "/api/v1/environments/read", "-yyyy yyy"},
    {get, "/api/v1/curated-environments", "-yyyy yyy"},
    {put, "/api/v1/curated-environments/{environment}", "-nnny nnn"},
    {del, "/api/v1/curated-environments/{environment}", "-nnny nnn"},
    {get, "/api/v1/policies", "-yyyy nnn"},
    {put, "/api/v1/policies/{role}", "-nnny nnn"},
    {get, "/api/v1/sizes", "-yyyy yyy"},
    {put, "/api/v1/sizes/{size}", "-nnny nnn"},
    {del, "/api/v1/sizes/{size}", "-nnny nnn"},

    {post, "/api/v1/runs", "-nyyy yyn", kSubmission},
    {get, "/api/v1/runs", "-yyyy yyy"},  // An attempt sees those of its workspace.
    {get, "/api/v1/runs/{id}", "-yyyy yyn"},
    {get, "/api/v1/runs/{id}/spec", "-yyyy yyn"},
    {patch, "/api/v1/runs/{id}", "-nnyy ynn", "{}"},
    {del, "/api/v1/runs/{id}", "-nnyy nnn"},
    {post, "/api/v1/runs/{id}/restore", "-nnyy nnn"},
    {post, "/api/v1/runs/{id}/cancel", "-nnyy ynn"},
    {post, "/api/v1/runs/{id}/end", "-nnyy ynn", R"({"status":"Completed"})"},
    {get, "/api/v1/runs/{id}/wait", "-yyyy yyn"},
    {get, "/api/v1/runs/{id}/follow", "-yyyy yyn"},
    {get, "/api/v1/runs/{id}/files", "-yyyy yyn"},
    {get, "/api/v1/runs/{id}/files/{path...}", "-yyyy yyn"},
    {get, "/api/v1/runs/{id}/outputs", "-yyyy yyn"},
    {put, "/api/v1/runs/{id}/outputs/{path...}", "-nnyy ynn"},
    {get, "/api/v1/runs/{id}/snapshot", "-yyyy yyn"},
    {get, "/api/v1/runs/{id}/metrics", "-yyyy yyn"},
    {get, "/api/v1/runs/{id}/series", "-yyyy yyn"},
    {post, "/api/v1/runs/{id}/records", "-nnyy ynn"},

    {post, "/api/v1/runs/{id}/attempts/{n}/reports", "-nnnn ynn"},
    {get, "/api/v1/runs/{id}/attempts/{n}/orders", "-nnnn ynn"},
    {get, "/api/v1/runs/{id}/attempts/{n}/assignment", "-nnnn ynn"},
    {post, "/api/v1/runs/{id}/attempts/{n}/handover", "-nnnn nnn"},  // By the ticket in its job.
    {post, "/api/v1/runs/{id}/attempts/{n}/console/{rank}", "-nnnn ynn"},
    {post, "/api/v1/runs/{id}/attempts/{n}/files", "-nnnn ynn"},
    {post, "/api/v1/runs/{id}/attempts/{n}/records/{rank}", "-nnnn ynn"},
    {get, "/api/v1/runs/{id}/attempts/{n}/secrets", "-nnnn ynn"},
    {get, "/api/v1/runs/{id}/attempts/{n}/environment", "-nnnn ynn"},

    {post, "/api/v1/node-tokens", "-nnny nnn"},
    {post, "/api/v1/machines", "-nnnn nnn"},  // A node token alone.
    {post, "/api/v1/machines/own", "-nyyy nnn"},
    {get, "/api/v1/machines", "-yyyy nnn"},
    // The machine's own credential, or whose it is; there is no such machine.
    {get, "/api/v1/machines/{machine}", "-nyyy nnn"},
    {del, "/api/v1/machines/{machine}", "-nyyy nnn"},
    {post, "/api/v1/machines/{machine}/poll", "-nyyy nnn"},

    {post, "/api/v1/machines/{machine}/exec", "-nnny nnn"},
    {post, "/api/v1/machines/{machine}/execs/{exec}/take", "-nyyy nnn"},
    {post, "/api/v1/machines/{machine}/execs/{exec}/output", "-nyyy nnn"},
    {post, "/api/v1/runs/{id}/exec", "-nnyy nnn", R"({"command":["true"]})"},
    {post, "/api/v1/workspaces/{workspace}/computes/{compute}/exec", "-nnny nnn"},
    {get, "/api/v1/execs/{exec}", "-nyyy nnn"},
    {del, "/api/v1/execs/{exec}", "-nyyy nnn"},
    {post, "/api/v1/runs/{id}/attempts/{n}/execs/{exec}/take", "-nnnn ynn"},
    {post, "/api/v1/runs/{id}/attempts/{n}/execs/{exec}/output", "-nnnn ynn"},

    // What a bare node starts from; anybody may build it.
    {get, "/api/v1/node/program", "yyyyy yyy"},
    {get, "/api/v1/node/program.sha256", "yyyyy yyy"},

    // Content is asked for by its hash: who knows it has it, or was told by who has.
    {post, "/api/v1/blobs", "-nyyy yyy"},
    {post, "/api/v1/blobs/missing", "-nyyy yyy"},
    // An attempt reads what its run names; others read blobs as files of a run or an environment.
    {get, "/api/v1/blobs/{digest}", "-nnny yyy"},
    {head, "/api/v1/blobs/{digest}", "-nnny yyy"},
    {get, "/api/v1/runs/{id}/blobs/{digest}", "-yyyy yyn"},
    {get, "/api/v1/workspaces/{workspace}/environments/{environment}/blobs/{digest}", "-yyyy yyn"},
};

constexpr std::string_view kHowToAdd =
    ": add a line to kTable in src/api/roles_test.cc that says who may use it";

std::string name_of(http::Method method, std::string_view pattern) {
  return std::string(http::to_string(method)) + " " + std::string(pattern);
}

const RoleRow* find_row(const RouteRow& route) {
  const auto found = std::ranges::find_if(kTable, [&](const RoleRow& row) {
    return row.method == route.method && row.pattern == route.pattern;
  });
  return found == std::end(kTable) ? nullptr : found;
}

// A server with three runs at work, two of them in one workspace, and a token of each kind.
struct People {
  Yard yard{{}, 4};
  RunId run = yard.submit("calm-finch-1");
  std::array<std::string, kWho.size()> tokens;

  People() {
    tokens[reader] = yard.token_of("rita", Role::reader);
    tokens[submitter] = yard.token_of("sam", Role::submitter);
    tokens[owner] = yard.token_of("owner", Role::submitter);
    tokens[admin] = yard.token_of("ada", Role::admin);
    tokens[own] = yard.place(run);
    const RunId beside = yard.submit("calm-finch-2");
    tokens[sibling] = yard.place(beside);
    RunSpec elsewhere;
    elsewhere.workspace = "elsewhere";
    elsewhere.experiment = "tests";
    elsewhere.command = {"true"};
    REQUIRE(yard.store->create_workspace({.name = "elsewhere"}).has_value());
    const RunId third{"calm-finch-3"};
    REQUIRE(yard.control->submit({third, elsewhere, "owner"}).has_value());
    tokens[stranger] = yard.place(third);
  }

  // The URL of a route, about the run and its workspace where it is about one.
  std::string url(std::string_view pattern) const {
    std::string out;
    while (true) {
      const size_t open = pattern.find('{');
      if (open == std::string_view::npos) return out.append(pattern);
      const size_t close = pattern.find('}');
      const std::string_view place = pattern.substr(open + 1, close - open - 1);
      const bool about_run = out.append(pattern.substr(0, open)).ends_with("/runs/");
      if (about_run) {
        out += run.value;
      } else if (out.ends_with("/workspaces/")) {
        out += "default";
      } else if (place == "n") {
        out += "1";
      } else if (place == "rank") {
        out += "0";
      } else {
        out += place == "digest" ? std::string(64, '0') : "77";
      }
      pattern.remove_prefix(close + 1);
    }
  }
};

// What the server's answer says of the asker, in the table's letters.
char letter_of(int status) {
  if (status == 401) return '-';
  if (status == 403) return 'n';
  return status < 500 ? 'y' : '!';
}

TEST_CASE("every route has its line in the table of who may, and every line a route") {
  const std::vector<RouteRow> routes = all_routes();
  for (const RouteRow& route : routes) {
    const bool listed = find_row(route) != nullptr;
    CHECK_MESSAGE(listed, name_of(route.method, route.pattern), kHowToAdd);
  }
  for (const RoleRow& row : kTable) {
    const bool there = std::ranges::any_of(routes, [&](const RouteRow& route) {
      return row.method == route.method && row.pattern == route.pattern;
    });
    CHECK_MESSAGE(there, name_of(row.method, row.pattern), ": there is no such route any more");
  }
}

TEST_CASE("each route lets in those whom the table says, and nobody else") {
  for (const RouteRow& route : all_routes()) {
    const RoleRow* row = find_row(route);
    if (row == nullptr) continue;
    // A server of its own for each route: what one request does is not seen by another route's.
    const People people;
    std::string may(row->may);
    std::erase(may, ' ');
    REQUIRE(may.size() == kWho.size());
    for (size_t who = 0; who < kWho.size(); ++who) {
      http::Client client = people.yard.over_tcp(people.tokens[who]);
      const http::Response answer =
          send(client, route.method, people.url(route.pattern), std::string(row->body));
      CHECK_MESSAGE(letter_of(answer.status) == may[who], name_of(route.method, route.pattern),
                    " for ", kWho[who], ": ", answer.status, " ", answer.body.substr(0, 200),
                    "; the table says ", std::string(1, may[who]));
    }
  }
}

TEST_CASE("without a token nothing is to be had but what tells nothing of anybody") {
  std::vector<std::string> open;
  const People people;
  for (const RouteRow& route : all_routes()) {
    http::Client client = people.yard.over_tcp();
    const http::Response answer = send(client, route.method, people.url(route.pattern));
    if (answer.status != 401) {
      open.emplace_back(route.pattern);
      continue;
    }
    CHECK(answer.headers.at("www-authenticate") == "Bearer");
    if (route.method != head) {
      CHECK(json_of(answer)["error"]["message"] == "a token is needed");
      CHECK(json_of(answer)["error"]["hint"] != "");
    }
  }
  CHECK(open == std::vector<std::string>{"/", "/health", "/version", "/api/v1/node/program",
                                         "/api/v1/node/program.sha256"});
}

TEST_CASE("an expired and a revoked token are refused on every route, and it is said which it is") {
  People people;
  Yard& yard = people.yard;
  const WallTime past = yard.clock.wall() - seconds(5);
  const auto expired = yard.store->create_token("ada", "old", past).value();
  const auto revoked = yard.store->create_token("ada", "lost", {}).value();
  REQUIRE(yard.store->revoke_token(revoked.token.id).has_value());
  struct Kind {
    std::string secret;
    std::string word;
  };
  const Kind kinds[] = {{expired.secret, "the token has expired " + format_time(past)},
                        {revoked.secret, "the token was revoked "},
                        {"tyu_never-made", "the token is not known here"}};
  for (const RouteRow& route : all_routes()) {
    if (route.needs == Needs::nothing) continue;
    for (const Kind& kind : kinds) {
      CAPTURE(name_of(route.method, route.pattern));
      CAPTURE(kind.word);
      http::Client client = yard.over_tcp(kind.secret);
      const http::Response answer = send(client, route.method, people.url(route.pattern));
      CHECK(answer.status == 401);
      if (route.method == head) continue;
      const Json error = json_of(answer)["error"];
      CHECK(error["kind"] == "denied");
      CHECK(error["message"].get<std::string>().starts_with(kind.word));
    }
  }
}

// A workspace for its members, with a run in it.
struct Closed {
  People people;
  Yard& yard = people.yard;
  RunId run{"shy-finch-1"};
  std::string member_reader = yard.token_of("mira", Role::submitter);  // Reader in there alone.
  std::string member = yard.token_of("mo", Role::submitter);
  std::string member_admin = yard.token_of("max", Role::submitter);
  std::string outsider = yard.token_of("otto", Role::submitter);

  Closed() {
    RunSpec spec;
    spec.workspace = "closed";
    spec.experiment = "tests";
    spec.command = {"true"};
    REQUIRE(yard.store->create_workspace({.name = "closed"}).has_value());
    add("mira", Role::reader);
    add("mo", Role::submitter);
    add("max", Role::admin);
    REQUIRE(yard.control->submit({run, spec, "mo"}).has_value());
  }

  void add(const std::string& user, Role role) {
    const auto change = [&](db::Transaction& transaction) {
      return store::set_member(transaction, "closed",
                               {.user = user, .role = role, .added_by = "ada"});
    };
    REQUIRE(yard.store->write(Durable::yes, change).has_value());
  }

  char ask(const RouteRow& route, const RoleRow& row, const std::string& token) {
    std::string url = people.url(route.pattern);
    const auto put_in = [](std::string& text, std::string_view what, const std::string& with) {
      if (const size_t at = text.find(what); at != std::string::npos) {
        text.replace(at, what.size(), with);
      }
    };
    put_in(url, "/workspaces/default", "/workspaces/closed");
    put_in(url, "/runs/" + people.run.value, "/runs/" + run.value);
    std::string body(row.body);
    put_in(body, R"("workspace":"default")", R"("workspace":"closed")");
    http::Client client = yard.over_tcp(token);
    return letter_of(send(client, route.method, url, body).status);
  }
};

bool is_about_a_workspace(const RouteRow& route) {
  return route.pattern.find("/workspaces/{") != std::string_view::npos ||
         route.pattern.find("/runs/{") != std::string_view::npos ||
         (route.method == post && route.pattern == "/api/v1/runs");
}

TEST_CASE("a workspace for its members lets each do what their role in it allows") {
  for (const RouteRow& route : all_routes()) {
    const RoleRow* row = find_row(route);
    if (row == nullptr || !is_about_a_workspace(route)) continue;
    std::string may(row->may);
    std::erase(may, ' ');
    Closed closed;
    CAPTURE(name_of(route.method, route.pattern));
    CHECK(closed.ask(route, *row, closed.outsider) == 'n');
    CHECK(closed.ask(route, *row, closed.people.tokens[reader]) == 'n');
    CHECK(closed.ask(route, *row, closed.people.tokens[own]) == 'n');  // Of an attempt elsewhere.
    CHECK(closed.ask(route, *row, closed.member_reader) == may[reader]);
    CHECK(closed.ask(route, *row, closed.member) == may[owner]);
    const bool of_members = route.pattern.find("/members/") != std::string_view::npos;
    CHECK(closed.ask(route, *row, closed.member_admin) == (of_members ? 'y' : may[owner]));
    CHECK(closed.ask(route, *row, closed.people.tokens[admin]) == may[admin]);
  }
}

TEST_CASE("a token's own limit holds in a workspace where its user is more") {
  Closed closed;
  const auto limited =
      closed.yard.store->create_token("max", "", std::nullopt, {.role = Role::submitter});
  http::Client client = closed.yard.over_tcp(limited.value().secret);
  const std::string url = "/api/v1/workspaces/closed/members/otto";
  CHECK(send(client, put, url, R"({"role": "reader"})").status == 403);
  http::Client whole = closed.yard.over_tcp(closed.member_admin);
  CHECK(send(whole, put, url, R"({"role": "reader"})").status / 100 == 2);
}

TEST_CASE("lists leave out what lies in workspaces that are closed to the reader") {
  Closed closed;
  const auto names = [&](const std::string& token, const std::string& url, const char* key) {
    http::Client client = closed.yard.over_tcp(token);
    std::vector<std::string> found;
    const Json page = json_of(fetch(client, url));
    for (const Json& item : page["items"]) found.push_back(item[key]);
    return found;
  };
  const std::vector<std::string> all = {"closed", "default", "elsewhere"};
  CHECK(names(closed.member, "/api/v1/workspaces", "name") == all);
  CHECK(names(closed.people.tokens[admin], "/api/v1/workspaces", "name") == all);
  CHECK(names(closed.outsider, "/api/v1/workspaces", "name") ==
        std::vector<std::string>{"default", "elsewhere"});
  const auto sees = [&](const std::string& token) {
    const auto runs = names(token, "/api/v1/runs", "id");
    return std::ranges::find(runs, closed.run.value) != runs.end();
  };
  CHECK(sees(closed.member_reader));
  CHECK(sees(closed.people.tokens[admin]));
  CHECK_FALSE(sees(closed.outsider));
  CHECK_FALSE(sees(closed.people.tokens[reader]));
  CHECK_FALSE(sees(closed.people.tokens[own]));
}

TEST_CASE("what an ended attempt, a node token or a machine may use") {
  People people;
  Yard& yard = people.yard;
  const RunId over = yard.submit("calm-finch-9");
  const std::string ended = yard.place(over);
  yard.finish(over);
  http::Client admins = yard.over_tcp(people.tokens[admin]);
  const auto make = [&](const char* url, const char* body, const char* key) {
    return json_of(send(admins, post, url, body))[key].get<std::string>();
  };
  const std::string node = make("/api/v1/node-tokens", "{}", "token");
  const std::string other = make("/api/v1/node-tokens", "{}", "token");
  http::Client joining = yard.over_tcp(other);
  const std::string machine = json_of(
      send(joining, post, "/api/v1/machines",
           R"({"uid":"u1","facts":{"host":"h","version":"1","cpus":2,"memoryBytes":1073741824,)"
           R"("gpus":[]}})"))["credential"];
  for (const RouteRow& route : all_routes()) {
    if (route.needs == Needs::nothing) continue;
    CAPTURE(name_of(route.method, route.pattern));
    const auto ask = [&](const std::string& token) {
      http::Client client = yard.over_tcp(token);
      return send(client, route.method, people.url(route.pattern)).status;
    };
    CHECK(ask(ended) == 409);
    if (route.needs != Needs::node_token) CHECK(ask(node) == 403);
    if (route.needs != Needs::machine) CHECK(ask(machine) == 403);
  }
}

TEST_CASE("what a role may not do is refused with the role that may") {
  const People people;
  http::Client client = people.yard.over_tcp(people.tokens[reader]);
  const Json error = json_of(send(client, post, "/api/v1/users", R"({"name":"eve"})"))["error"];
  CHECK(error["kind"] == "denied");
  CHECK(error["message"] == "rita is reader; this needs the role admin");
  CHECK(error["hint"].get<std::string>().find("trainyard user update") != std::string::npos);
}

}  // namespace
}  // namespace trainyard::api
