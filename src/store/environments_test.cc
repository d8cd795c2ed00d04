#include "store/environments.h"

#include <doctest/doctest.h>

#include "base/fake_clock.h"
#include "store/store.h"

using namespace trainyard;
using store::Store;

namespace {

EnvironmentRecord record_of(std::string name, std::vector<std::string> requirements,
                            std::string version = {}) {
  EnvironmentRecord record;
  record.environment.name = std::move(name);
  record.environment.version = std::move(version);
  record.environment.recipe.kind = EnvironmentKind::venv;
  record.environment.recipe.requirements = std::move(requirements);
  record.created_by = "ada";
  return record;
}

struct EnvironmentsHome {
  TempDir dir;
  FakeClock clock;
  std::unique_ptr<Store> store = open();

  std::unique_ptr<Store> open() {
    auto opened = Store::open(dir.path() / "trainyard.db", clock, {.sync = false});
    REQUIRE(opened);
    return *std::move(opened);
  }
  Result<store::EnvironmentMade> put(EnvironmentRecord record,
                                     std::string_view workspace = "default") {
    Result<store::EnvironmentMade> made = fail(ErrorKind::internal, "not made");
    static_cast<void>(store->write(Durable::no, [&](db::Transaction& t) -> Status {
      made = store::register_environment(t, workspace, record);
      return made ? Status() : Status(std::unexpected(made.error()));
    }));
    return made;
  }
  std::string version(EnvironmentRecord record) {
    const auto made = put(std::move(record));
    return made ? made->record.environment.version : "refused: " + made.error().message;
  }
  Status change(const std::function<Status(db::Transaction&)>& f) {
    return store->write(Durable::no, f);
  }
  Result<EnvironmentRecord> resolve(std::string name, std::string version = {}) {
    Result<EnvironmentRecord> found = fail(ErrorKind::internal, "nobody looked");
    REQUIRE(store->read([&](db::Db& db) -> Status {
      found = store::resolve_environment(db, "default", {name, version});
      return {};
    }));
    return found;
  }
  std::vector<std::string> labels(const store::EnvironmentFilter& filter) {
    std::vector<std::string> found;
    REQUIRE(store->read([&](db::Db& db) -> Status {
      TRY_SET(const auto all, store::list_environments(db, "default", filter));
      for (const EnvironmentRecord& record : all) found.push_back(label(record.environment));
      return {};
    }));
    return found;
  }
};

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("versions count up, and what does the same is the version it was") {
  EnvironmentsHome home;
  CHECK(home.version(record_of("mine", {"numpy"})) == "1");
  CHECK(home.version(record_of("mine", {"pandas"})) == "2");
  CHECK(home.version(record_of("mine", {"numpy  # again"})) == "1");
  CHECK(home.version(record_of("mine", {"scipy"})) == "3");
  CHECK(home.version(record_of("other", {"numpy"})) == "1");
  CHECK(home.put(record_of("mine", {"scipy"}))->made == false);
}

TEST_CASE("a version that is asked for is made once, and another of it is refused") {
  EnvironmentsHome home;
  CHECK(home.version(record_of("mine", {"numpy"}, "7")) == "7");
  CHECK(home.version(record_of("mine", {"numpy"}, "7")) == "7");
  const auto other = home.put(record_of("mine", {"pandas"}, "7"));
  REQUIRE(!other);
  CHECK(other.error().kind == ErrorKind::conflict);
  CHECK(home.version(record_of("mine", {"pandas"})) == "8");
  CHECK(home.version(record_of("mine", {"scipy"}, "1.0-beta")) == "1.0-beta");
  CHECK(home.version(record_of("mine", {"tqdm"})) == "9");
}

TEST_CASE("a name is resolved to the newest version, or the one that is named") {
  EnvironmentsHome home;
  REQUIRE(home.put(record_of("mine", {"numpy"})));
  REQUIRE(home.put(record_of("mine", {"pandas"})));
  CHECK(home.resolve("mine")->environment.version == "2");
  CHECK(home.resolve("mine")->created_by == "ada");
  CHECK(home.resolve("mine", "1")->environment.recipe.requirements == Words{"numpy"});
  const auto missing = home.resolve("mine", "5");
  REQUIRE(!missing);
  CHECK(missing.error().kind == ErrorKind::not_found);
  CHECK(missing.error().hint == "It has: 2, 1.");
}

TEST_CASE("an unknown name is not found, with the nearest of both tables") {
  EnvironmentsHome home;
  REQUIRE(home.put(record_of("my-training", {"numpy"})));
  CHECK(home.resolve("my-trainin").error().hint.find("'my-training'") != std::string::npos);
  CHECK(home.resolve("tensorflo").error().hint.find("'tensorflow'") != std::string::npos);
  CHECK(home.resolve("x").error().kind == ErrorKind::not_found);
}

TEST_CASE("names of others are refused, and an unknown workspace") {
  EnvironmentsHome home;
  CHECK(home.version(record_of("AzureML-mine", {})).starts_with("refused"));
  CHECK(home.version(record_of("microsoft-mine", {})).starts_with("refused"));
  CHECK(home.put(record_of("mine", {}), "nowhere").error().kind == ErrorKind::not_found);
}

TEST_CASE("lists have the latest of each, newest first; or all versions of one") {
  EnvironmentsHome home;
  REQUIRE(home.put(record_of("a", {"numpy"})));
  REQUIRE(home.put(record_of("b", {"numpy"})));
  REQUIRE(home.put(record_of("a", {"pandas"})));
  CHECK(home.labels({}) == Words{"a:2", "b:1"});
  CHECK(home.labels({.name = "a", .archived = false}) == Words{"a:2", "a:1"});
}

TEST_CASE("what is archived is neither listed nor the latest, and comes back") {
  EnvironmentsHome home;
  REQUIRE(home.put(record_of("a", {"numpy"})));
  REQUIRE(home.put(record_of("a", {"pandas"})));
  const auto archive = [&](std::string version, bool archived) {
    return home.change([&](db::Transaction& t) {
      return store::archive_environment(t, "default", {"a", version}, archived);
    });
  };
  REQUIRE(archive("2", true));
  CHECK(home.resolve("a")->environment.version == "1");
  CHECK(home.resolve("a", "2")->environment.recipe.requirements == Words{"pandas"});
  REQUIRE(archive("", true));
  CHECK(home.labels({}).empty());
  CHECK(home.labels({.name = {}, .archived = true}) == Words{"a:2"});
  CHECK(home.resolve("a").error().message == "environment 'a' is archived");
  REQUIRE(archive("", false));
  CHECK(home.resolve("a")->environment.version == "2");
  CHECK(archive("9", true).error().kind == ErrorKind::not_found);
}

TEST_CASE("the curated names of users' files stand for packages of today") {
  EnvironmentsHome home;
  for (const char* name :
       {"tensorflow", "sklearn", "pytorch", "minimal", "AzureML-Minimal",
        "AzureML-TensorFlow-2.3-GPU", "AzureML-TensorFlow-2.3-CPU", "AzureML-Scikit-learn-0.20.3",
        "AzureML-PyTorch-1.6-GPU", "azureml-pytorch-1.6-cpu",
        "AzureML-sklearn-1.0-ubuntu20.04-py38-cpu", "sklearn-1.5",
        "AzureML-sklearn-0.24-ubuntu18.04-py37-cpu", "acpt-pytorch-2.2-cuda12.1"}) {
    const auto found = home.resolve(name);
    REQUIRE_MESSAGE(found, name);
    CHECK(found->curated());
    CHECK(found->environment.name == name);
    CHECK(found->environment.recipe.kind == EnvironmentKind::venv);
    const bool plain = std::string_view(name).find_first_of("0123456789") == std::string::npos;
    CHECK_MESSAGE(found->note.empty() == plain, name);
  }
  CHECK(home.resolve("AzureML-TensorFlow-2.3-CPU")->environment.recipe.requirements.front() ==
        "tensorflow-cpu");
  CHECK(home.resolve("AzureML-TensorFlow-2.3-GPU", "3")->environment.recipe.requirements.front() ==
        "tensorflow");
  CHECK(!home.resolve("AzureML-Nothing"));
}

TEST_CASE("a registered environment comes before a curated one of its name") {
  EnvironmentsHome home;
  REQUIRE(home.put(record_of("sklearn", {"scikit-learn==1.0"})));
  CHECK(!home.resolve("sklearn")->curated());
  CHECK(home.resolve("sklearn", "4").error().message == "environment 'sklearn' has no version 4");
}

TEST_CASE("an admin changes what curated names stand for") {
  EnvironmentsHome home;
  EnvironmentRecord record = record_of("AzureML-Ours-*", {"ours"});
  record.note = "ask us";
  const auto set = [&] {
    return home.change([&](db::Transaction& t) { return store::set_curated(t, record); });
  };
  REQUIRE(set());
  CHECK(home.resolve("azureml-ours-7")->note == "ask us");
  record.environment.recipe.requirements = {"ours", "more"};
  REQUIRE(set());
  CHECK(home.resolve("AzureML-Ours-7")->environment.recipe.requirements == Words{"ours", "more"});
  record.environment.name = "a/b";
  CHECK(set().error().kind == ErrorKind::invalid);
  record.environment.name = "a*b*c*d*e";
  CHECK(set().error().kind == ErrorKind::invalid);
  const auto drop = [&](std::string_view name) {
    return home.change([&](db::Transaction& t) { return store::delete_curated(t, name); });
  };
  REQUIRE(drop("AZUREML-ours-*"));
  CHECK(!home.resolve("AzureML-Ours-7"));
  CHECK(drop("tensorflo").error().hint.find("'tensorflow'") != std::string::npos);
}

TEST_CASE("only their maker or an admin deletes versions") {
  EnvironmentsHome home;
  EnvironmentRecord record = record_of("mine", {"numpy"});
  record.created_by = "ada";
  REQUIRE(home.put(record));
  const auto drop = [&](std::string_view owner) {
    return home.change([&](db::Transaction& t) {
      return store::delete_environment(t, "default", {"mine", ""}, WallTime(seconds(9)), owner);
    });
  };
  CHECK(drop("sam").error().kind == ErrorKind::denied);
  CHECK(home.resolve("mine"));
  CHECK(drop("ada"));
  CHECK(!home.resolve("mine"));
}

TEST_CASE("those that are built from a folder are found, for who checks its tree") {
  EnvironmentsHome home;
  REQUIRE(home.put(record_of("plain", {"numpy"})));
  EnvironmentRecord built = record_of("built", {});
  built.environment.recipe.kind = EnvironmentKind::container;
  built.environment.recipe.dockerfile = "Dockerfile";
  built.environment.recipe.context = "abc";
  REQUIRE(home.put(built));
  REQUIRE(home.store->read([&](db::Db& db) -> Status {
    TRY_SET(const auto found, store::environments_with_trees(db));
    REQUIRE(found.size() == 1);
    CHECK(found[0].environment.recipe.context == "abc");
    return {};
  }));
}
