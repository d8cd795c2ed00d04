// Any bytes as what Slurm's programs print.
#include "engine/slurm/batch.h"
#include "engine/slurm/host_list.h"
#include "engine/slurm/queue_text.h"
#include "tests/fuzz/input.h"

using namespace trainyard;
namespace slurm = trainyard::engine::slurm;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text = fuzz::text_of(bytes, size);
  for (const slurm::Job& job : slurm::parse_queue(text)) {
    ENSURE(job.number > 0);
    ENSURE(job.index >= -1);
    slurm::phase_of(job.state);
    slurm::attempt_of(job.comment, "server");
  }
  for (const slurm::Node& node : slurm::parse_nodes(text)) ENSURE(!node.name.empty());
  ENSURE(slurm::expand_hosts(text).size() <= 100'000);
  const auto places = slurm::parse_places(text);
  if (places) {
    for (const int index : places->indexes) ENSURE(index >= 0);
  }
  slurm::attempts_of(text, "server");
  slurm::parse_submitted(text);
  slurm::parse_limit(text);
  slurm::refusal_of(text);
  ENSURE(slurm::slurm_words(text).find('\n') == std::string::npos);
  return 0;
}
