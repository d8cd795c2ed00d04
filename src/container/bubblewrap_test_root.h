#pragma once

#include <doctest/doctest.h>

#include <map>
#include <string>

#include "base/command.h"
#include "base/file.h"
#include "base/text.h"

namespace trainyard::container {

// A root with a shell and a few programs of this machine and the libraries they need.
class TestRoot {
 public:
  TestRoot() {
    for (const char* name : {"/bin", "/etc", "/tmp", "/proc", "/dev", "/sys", "/opt"}) {
      REQUIRE(make_dirs(path() + name));
    }
    for (const char* name : {"sh", "cat", "sleep", "id", "ls", "rm", "chmod"}) {
      const fs::path file = find_program(name);
      add(fs::canonical(file), std::string("/bin/") + name);
      const std::string needed = output_of({"ldd", file}, seconds(10)).value();
      for (const std::string& word : split(needed, ' ')) {
        for (const std::string& part : split(word, '\t')) {
          if (part.starts_with('/')) add(fs::canonical(part), part);
        }
      }
    }
    REQUIRE(write_file(path() + "/etc/passwd", "root:x:0:0::/opt:/bin/sh\n"));
    REQUIRE(write_file(path() + "/etc/motd", "hello\n"));
    REQUIRE(write_file(path() + "/etc/group", "root:x:0:\n"));
  }
  std::string path() const { return folder_.path() / "root"; }
  fs::path beside(const std::string& name) const { return folder_.path() / name; }

 private:
  void add(const fs::path& from, const std::string& to) const {
    REQUIRE(make_dirs(fs::path(path() + to).parent_path()));
    fs::copy_file(from, path() + to, fs::copy_options::skip_existing);
  }
  TempDir folder_;
};

}  // namespace trainyard::container
