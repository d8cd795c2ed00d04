#include "engine/slurm/host_list.h"

#include <doctest/doctest.h>

using trainyard::engine::slurm::expand_hosts;
using Names = std::vector<std::string>;

TEST_CASE("Slurm's short lists of nodes are written out") {
  CHECK(expand_hosts("").empty());
  CHECK(expand_hosts("n1") == Names{"n1"});
  CHECK(expand_hosts("n[1-3]") == Names{"n1", "n2", "n3"});
  CHECK(expand_hosts("n[1,3],gpu7") == Names{"n1", "n3", "gpu7"});
  CHECK(expand_hosts("n[08-11,20]") == Names{"n08", "n09", "n10", "n11", "n20"});
  CHECK(expand_hosts("r[1-2]n[1-2].site") ==
        Names{"r1n1.site", "r1n2.site", "r2n1.site", "r2n2.site"});
}

TEST_CASE("what is no list of nodes is taken as it is, and a huge one is cut") {
  CHECK(expand_hosts("n[1-3") == Names{"n[1-3"});
  CHECK(expand_hosts("n[3-1]") == Names{"n3-1"});
  CHECK(expand_hosts("n[a-b]") == Names{"na-b"});
  CHECK(expand_hosts("n[0-99999999999]") == Names{"n0-99999999999"});
  CHECK(expand_hosts("a[1-999]b[1-999]").size() == 100'000);
}
