#include "cli/job_view.h"

#include <doctest/doctest.h>

using namespace trainyard;
using namespace trainyard::cli;

namespace {

Json a_run() {
  return {{"id", "brisk-otter"},
          {"name", "the trial"},
          {"experiment", "trials"},
          {"status", "Running"},
          {"command", {"echo it's $HOME"}},
          {"commandForm", "shell"},
          {"target", "local"},
          {"user", "ann"},
          {"createdAt", "2026-01-02T03:04:05Z"},
          {"studioUrl", "http://127.0.0.1:1/runs/brisk-otter"},
          {"priority", "normal"},
          {"timeLimitSeconds", 60},
          {"processCountPerNode", 2},
          {"outputNames", {{"model", "outputs/model/"}, {"report", "outputs/report"}}}};
}

}  // namespace

TEST_CASE("a job's name is the run's id, and its other names are those of v2") {
  const Json job = job_json(a_run());
  CHECK(job["name"] == "brisk-otter");
  CHECK(job["display_name"] == "the trial");
  CHECK(job["experiment_name"] == "trials");
  CHECK(job["status"] == "Running");
  CHECK(job["compute"] == "local");
  CHECK(job["services"]["Studio"]["endpoint"] == "http://127.0.0.1:1/runs/brisk-otter");
  CHECK(job["creation_context"]["created_at"] == "2026-01-02T03:04:05Z");
  CHECK(job["creation_context"]["created_by"] == "ann");
  CHECK(job["queue_settings"]["priority"] == "medium");
  CHECK(job["limits"]["timeout"] == 60);
  CHECK(job["distribution"]["process_count_per_instance"] == 2);
  CHECK(job["outputs"]["model"]["type"] == "uri_folder");
  CHECK(job["outputs"]["report"]["type"] == "uri_file");
  CHECK(job["tags"].is_object());
}

TEST_CASE("a job's command is one text for a shell") {
  Json run = a_run();
  CHECK(job_json(run)["command"] == "echo it's $HOME");
  run["commandForm"] = "exec";
  run["command"] = {"python", "train.py", "--name", "it's", "--empty", ""};
  CHECK(job_json(run)["command"] == R"(python train.py --name 'it'\''s' --empty '')");
  run["command"] = Json::array();
  CHECK(job_json(run)["command"] == "");
}

TEST_CASE("a run of which little is known is a job all the same") {
  const Json job = job_json({{"id", "x"}});
  CHECK(job["name"] == "x");
  CHECK(job["limits"].is_null());
  CHECK(job["distribution"].is_null());
  CHECK(job_raw_row(job).size() == job_header().size());
  CHECK(job_row(job, WallTime{}).size() == job_header().size());
}

TEST_CASE("a job's environment is named as a job file names it") {
  const auto shown = [](const Json& environment) {
    return job_json({{"id", "r"}, {"environment", environment}})["environment"];
  };
  CHECK(shown("system") == "system");
  CHECK(shown({{"kind", "venv"}, {"name", "mine"}, {"version", "3"}}) == "azureml:mine:3");
  CHECK(shown({{"kind", "venv"}, {"name", "sklearn"}, {"version", ""}}) ==
        "azureml:sklearn@latest");
  CHECK(shown({{"kind", "venv"}, {"name", ""}, {"hash", "ab"}})["hash"] == "ab");
}
