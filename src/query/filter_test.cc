#include <doctest/doctest.h>

#include "query/query.h"
#include "query/query_cases.h"

namespace trainyard::query {
namespace {

TEST_CASE("a filter keeps the elements for which its condition is true") {
  check_all(R"({"p":[{"n":"a","v":1,"on":true,"t":["x","y"]},{"n":"b","v":2.5,)"
            R"("on":false,"t":[]},{"n":"c","v":-3,"t":null},{"n":"d","v":"2",)"
            R"("on":true,"o":{"k":1,"j":[1,2]}},{"n":"e","o":{"j":[1,2],"k":1}}],)"
            R"("q":{"v":1},"lim":1})",
            {
                {"p[?n=='a']", R"([{"n":"a","v":1,"on":true,"t":["x","y"]}])"},
                {"p[?n=='a'].v", "[1]"},
                {"p[?v==`1`].n", R"(["a"])"},
                {"p[?v!=`1`].n", R"(["b","c","d","e"])"},
                {"p[?v>`1`].n", R"(["b"])"},
                {"p[?v>=`1`].n", R"(["a","b"])"},
                {"p[?v<`1`].n", R"(["c"])"},
                {"p[?v<=`1`].n", R"(["a","c"])"},
                {"p[?v==`2.5`].n", R"(["b"])"},
                {"p[?v==`1.0`].n", R"(["a"])"},
                {R"(p[?v==`"2"`].n)", R"(["d"])"},
                {"p[?on].n", R"(["a","d"])"},
                {"p[?!on].n", R"(["b","c","e"])"},
                {"p[?on==`true`].n", R"(["a","d"])"},
                {"p[?on==`false`].n", R"(["b"])"},
                {"p[?on==`null`].n", R"(["c","e"])"},
                {"p[?on!=`null`].n", R"(["a","b","d"])"},
                {"p[?t].n", R"(["a"])"},
                {"p[?!t].n", R"(["b","c","d","e"])"},
                {"p[?t==`[]`].n", R"(["b"])"},
                {R"(p[?t==`["x","y"]`].n)", R"(["a"])"},
                {R"(p[?t==`["y","x"]`].n)", "[]"},
                {R"(p[?o==`{"j":[1,2],"k":1}`].n)", R"(["d","e"])"},
                {R"(p[?o==`{"k":1}`].n)", "[]"},
                {"p[?o.k==`1`].n", R"(["d","e"])"},
                {"p[?o.j[1]==`2`].n", R"(["d","e"])"},
                {"p[?o.j[1]>`1`].n", R"(["d","e"])"},
                {"p[?missing].n", "[]"},
                {"p[?missing==other].n", R"(["a","b","c","d","e"])"},
                {"p[?@].n", R"(["a","b","c","d","e"])"},
                {"p[?`true`].n", R"(["a","b","c","d","e"])"},
                {"p[?`false`]", "[]"},
                {"p[?n=='a' || n=='c'].n", R"(["a","c"])"},
                {"p[?n=='a' && v==`1`].n", R"(["a"])"},
                {"p[?n=='a' && v==`2`].n", "[]"},
                {"p[?n=='a' || n=='b' && v==`9`].n", R"(["a"])"},
                {"p[?(n=='a' || n=='b') && v==`2.5`].n", R"(["b"])"},
                {"p[?!(n=='a')].n", R"(["b","c","d","e"])"},
                {"p[?n!='a' && !on].n", R"(["b","c","e"])"},
                {"p[?contains(n,'a')].n", R"(["a"])"},
                {"p[?length(n)==`1`] | length(@)", "5"},
                {"p[?v==`1`].t[]", R"(["x","y"])"},
                {"p[?v==`1`].t[0]", R"(["x"])"},
                {"p[?v==`1`] | [0].n", R"("a")"},
                {"p[?n=='zz']", "[]"},
                {"p[?n=='zz'].n", "[]"},
                {"p[?n=='a'][0]", "[]"},
                {"p[?n=='a'].t[*]", R"([["x","y"]])"},
                {"p[?on][?v==`1`]", "[]"},
                {"p[*].o[?k==`1`]", "[]"},
                {"p[?t[0]=='x'].n", R"(["a"])"},
                {"p[?o].o.j[]", "[1,2,1,2]"},
                {"q[?v==`1`]", "null"},
                {"lim[?@]", "null"},
                {"missing[?a]", "null"},
                {"p[? n == 'a' ].n", R"(["a"])"},
                {"p[?v > lim].n", "[]"},
                {"p[?`1`==v].n", R"(["a"])"},
                {"p[?'a'==n].v", "[1]"},
                {"p[?n==n] | length(@)", "5"},
                {"p[?v==v && n=='e'].n", R"(["e"])"},
            });
  check_all(R"([1,2,3,4,"x",null,true])", {
                                              {"[?@>`2`]", "[3,4]"},
                                              {"[?@==`2`]", "[2]"},
                                              {"[?@!=`2`]", R"([1,3,4,"x",true])"},
                                              {"[?@]", R"([1,2,3,4,"x",true])"},
                                              {"[?!@]", "[]"},
                                              {"[?@=='x']", R"(["x"])"},
                                              {"[?type(@)=='number']", "[1,2,3,4]"},
                                              {"[?type(@)=='number' && @>`1`] | [0]", "2"},
                                              {"[?@>`1` && @<`4`]", "[2,3]"},
                                          });
  check_all("[[1,2],[3],[]]", {
                                  {"[?length(@)>`1`]", "[[1,2]]"},
                                  {"[?[0]==`3`]", "[[3]]"},
                                  {"[?@]", "[[1,2],[3]]"},
                                  {"[*][?@>`1`]", "[[2],[3],[]]"},
                                  {"[][?@>`1`]", "[]"},
                                  {"[?@][]", "[1,2,3]"},
                              });
}

TEST_CASE("only numbers have an order, all else gives null") {
  check_all(R"({"t":true,"f":false,"n":null,"z":0,"one":1,"s":"x","es":"","el":[)"
            R"(],"eo":{},"l":[0],"o":{"a":false}})",
            {
                {"s < 'y'", "null"},
                {"'a' > 'b'", "null"},
                {R"(`1` < `"2"`)", "null"},
                {"t > f", "null"},
                {"n < one", "null"},
                {"l < l", "null"},
                {"eo >= eo", "null"},
                {"one < `2`", "true"},
                {"one <= `1`", "true"},
                {"one > z", "true"},
                {"one >= `1.5`", "false"},
                {"z == f", "false"},
                {"es == el", "false"},
                {"el == eo", "false"},
                {"n == missing", "true"},
                {"z == n", "false"},
                {"es == n", "false"},
                {"l == `[0]`", "true"},
                {"l == `[0.0]`", "true"},
                {R"(o == `{"a":false}`)", "true"},
                {R"(o != `{"a":null}`)", "true"},
                {"one == `1.0`", "true"},
                {"t == `true`", "true"},
                {"t == one", "false"},
                {"s == 's'", "false"},
                {"s == 'x'", "true"},
                {"s != es", "true"},
                {"`18446744073709551615` == `-1`", "false"},
                {"`9007199254740993` == `9007199254740992`", "false"},
                {"`9007199254740993` > `9007199254740992`", "true"},
                {R"(`{"a":1,"b":2}` == `{"b":2,"a":1}`)", "true"},
                {R"(`{"a":null}` == `{"b":null}`)", "false"},
                {R"(`[1,[2,{"x":[]}]]` == `[1,[2,{"x":[]}]]`)", "true"},
                {"one == one == t", "true"},
                {"[z,one] == `[0,1]`", "true"},
                {"{a: f} == o", "true"},
                {"l[*] == l", "true"},
            });
}

TEST_CASE("or gives the first true value, and the first false one") {
  check_all(R"({"t":true,"f":false,"n":null,"z":0,"one":1,"s":"x","es":"","el":[)"
            R"(],"eo":{},"l":[0],"o":{"a":false}})",
            {
                {"t || f", "true"},
                {"f || t", "true"},
                {"f || n", "null"},
                {"n || f", "false"},
                {"missing || s", R"("x")"},
                {"es || s", R"("x")"},
                {"el || eo", "{}"},
                {"eo || el", "[]"},
                {"z || one", "0"},
                {"n || missing || es || l", "[0]"},
                {"t && f", "false"},
                {"f && t", "false"},
                {"s && one", "1"},
                {"one && s", R"("x")"},
                {"n && s", "null"},
                {"es && s", R"("")"},
                {"el && s", "[]"},
                {"eo && s", "{}"},
                {"z && s", R"("x")"},
                {"t && s && l", "[0]"},
                {"t && n && l", "null"},
                {"f || t && s", R"("x")"},
                {"t || f && f", "true"},
                {"(t || f) && f", "false"},
                {"t && (f || s)", R"("x")"},
                {"f && f || s", R"("x")"},
                {"missing && missing || 'no'", R"("no")"},
                {"o.a || 'none'", R"("none")"},
                {"l || missing", "[0]"},
                {"missing || missing.a || `1`", "1"},
            });
}

TEST_CASE("not is true of null, false and what is empty, but not of 0") {
  check_all(
      R"({"t":true,"f":false,"n":null,"z":0,"one":1,"s":"x","es":"","el":[)"
      R"(],"eo":{},"l":[0],"o":{"a":false}})",
      {
          {"!t", "false"},     {"!f", "true"},         {"!n", "true"},       {"!z", "false"},
          {"!s", "false"},     {"!es", "true"},        {"!el", "true"},      {"!eo", "true"},
          {"!l", "false"},     {"!o", "false"},        {"!missing", "true"}, {"!!t", "true"},
          {"!!z", "true"},     {"!!missing", "false"}, {"!!!f", "true"},     {"!(t && f)", "true"},
          {"!t || t", "true"}, {"!f && s", R"("x")"},  {"!t == f", "true"},  {"!z == f", "true"},
          {"!o.a", "true"},    {"!o.missing", "true"}, {"!l[0]", "false"},   {"!o.a == t", "true"},
          {"!o.* ", "false"},  {"(!o).a", "null"},     {"!`false`", "true"}, {"!@", "false"},
          {"! t", "false"},    {"!`0`", "false"},
      });
  check_all(R"([{"f":{"on":false}},{"f":{"on":true}}])",
            {
                {"[?!f.on]", R"([{"f":{"on":false}}])"},
                {"[?f.on]", R"([{"f":{"on":true}}])"},
                {"[?!f.on].f.on", "[false]"},
            });
}

TEST_CASE("parentheses group, and a pipe ends a projection") {
  check_all(R"({"runs":[{"id":"r1","state":"running","gpus":8,"user":{"name":"ada"},)"
            R"("tags":["a","b"]},{"id":"r2","state":"done","gpus":0,"user":{)"
            R"("name":"bob"},"tags":[]},{"id":"r3","state":"done","gpus":4,)"
            R"("user":null,"tags":["b","c"]}],"next":null})",
            {
                {"runs[*].id", R"(["r1","r2","r3"])"},
                {"runs[*].id | [0]", R"("r1")"},
                {"runs[*].id[0]", "[]"},
                {"(runs[*].id)[0]", R"("r1")"},
                {"runs[*].tags | [0]", R"(["a","b"])"},
                {"runs[*].tags[0]", R"(["a","b"])"},
                {"(runs[*].tags)[0]", R"(["a","b"])"},
                {"runs[*].tags[] | length(@)", "4"},
                {"runs | [0] | id", R"("r1")"},
                {"runs|[0]|user|name", R"("ada")"},
                {"runs[?state=='done'] | [0].id", R"("r2")"},
                {"runs[?state=='done'].id | [-1]", R"("r3")"},
                {"runs[?state=='done'] | [*].gpus | sum(@)", "4"},
                {"(runs | [0]).id", R"("r1")"},
                {"((runs))[0].id", R"("r1")"},
                {"runs[*].user.name | sort(@) | [0]", R"("ada")"},
                {"next | @", "null"},
                {"next | a", "null"},
                {"missing | missing", "null"},
                {"runs[*].user | [2]", "null"},
                {"runs[0] | [id, state]", R"(["r1","running"])"},
                {"runs[0] | {i: id}", R"({"i":"r1"})"},
                {"runs[*].[id] | []", R"(["r1","r2","r3"])"},
                {"`[1]` | [0]", "1"},
                {"runs[*].gpus | max(@) | to_string(@)", R"("8")"},
                {"runs[0].id | @ | @", R"("r1")"},
                {"(runs[0] || next).id", R"("r1")"},
                {"(next || runs[0]).id", R"("r1")"},
                {"runs[*].(id)", "!syntax"},
            });
}

}  // namespace
}  // namespace trainyard::query
