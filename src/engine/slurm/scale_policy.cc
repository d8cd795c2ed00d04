#include "engine/slurm/scale_policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/slurm/scale_words.h"

namespace trainyard::engine::slurm {
namespace {

using Is = ScaleNode::Is;

// After a gap between two rounds (a Slurm that did not answer) nobody was slow.
constexpr seconds kGap{15};

// The first to be taken: what is up, what comes, what can be called back, what is off, what is slow
// to come.
enum class Rank { up, coming, returning, off, slow, none };
constexpr Rank kRanks[] = {Rank::up, Rank::coming, Rank::returning, Rank::off, Rank::slow};

}  // namespace

class ScalePolicy::Round {
 public:
  Round(const ScaleLimits& limits, const std::vector<ScaleNode>& nodes, SteadyTime now)
      : limits_(limits), nodes_(nodes), now_(now) {
    int on = 0;
    for (const ScaleNode& node : nodes) {
      const bool up = node.is == Is::up;
      rooms_.push_back({.node = &node, .cpus = up ? node.cpus_free : node.cpus, .gpus = node.gpus});
      if (node.is != Is::off && node.is != Is::unusable) ++on;
      if (node.is == Is::off && node.not_before > now) earlier(made.again, node.not_before);
    }
    budget_ = limits.paused ? 0 : std::max(0, limits.max_nodes - on);
  }

  void serve(const ScaleWant& want, Hold& hold);
  void keep_minimum();
  void take_down();

  ScaleDecision made;

 private:
  struct Room {
    const ScaleNode* node = nullptr;
    int cpus = 0;
    int gpus = 0;
    bool taken = false;    // For a want.
    bool started = false;  // In this round.
  };
  struct Choice {
    std::vector<Room*> rooms;
    int in_use = 0;  // Besides, up and without room just now.
    int ready = 0;   // Of the rooms, those that are up.
    bool enough = false;
  };

  Rank rank_of(const Room& room) const;
  // One that asked for no more got nothing: thousands in line do not cost thousands of searches.
  bool is_hopeless(const ScaleWant& want) const;
  Choice choose(const ScaleWant& want, const std::set<std::string>& unfit);
  // false: it has been held for long enough.
  bool may_hold(const ScaleWant& want, Hold& hold, Choice& choice);
  void give_up(const ScaleWant& want, Hold& hold, const Choice& choice);
  void reserve(const ScaleWant& want, const Choice& choice);
  void start(Room& room);
  void say(const ScaleWant& want, const Choice& choice);

  static bool has_room(const Room& room, const Resources& each) {
    const ScaleNode& node = *room.node;
    return (node.cpus == 0 || room.cpus >= each.cpus) && room.gpus >= each.gpus &&
           (node.memory_bytes == 0 || node.memory_bytes >= each.memory_bytes);
  }
  static bool could_have(const ScaleNode& node, const Resources& each) {
    return has_room({.node = &node, .cpus = node.cpus, .gpus = node.gpus}, each);
  }

  const ScaleLimits& limits_;
  const std::vector<ScaleNode>& nodes_;
  const SteadyTime now_;
  std::vector<Room> rooms_;
  std::vector<const ScaleWant*> hopeless_;
  std::map<int, std::string> none_;  // The words for so many nodes that are not to be had.
  int budget_ = 0;
};

ScaleDecision ScalePolicy::decide(const ScaleLimits& limits, const std::vector<ScaleNode>& nodes,
                                  const std::vector<ScaleWant>& wants, SteadyTime now) {
  std::map<std::string, Hold> kept;
  Round round(limits, nodes, now);
  for (const ScaleWant& want : wants) {
    Hold& hold = kept[want.id] = std::move(holds_[want.id]);
    if (now - last_ > kGap) hold.complete.reset();
    round.serve(want, hold);
  }
  holds_ = std::move(kept);
  last_ = now;
  round.keep_minimum();
  round.take_down();
  return std::move(round.made);
}

void ScalePolicy::Round::serve(const ScaleWant& want, Hold& hold) {
  if (now_ < hold.given_up_until) {
    earlier(made.again, hold.given_up_until);
    made.words[want.id] =
        hold.why + "; tried again in " + time_in_words(hold.given_up_until - now_);
    return;
  }
  const bool hopeless = hold.unfit.empty() && is_hopeless(want);
  Choice choice = hopeless ? Choice{} : choose(want, hold.unfit);
  if (!choice.enough && !hopeless && hold.unfit.empty()) hopeless_.push_back(&want);
  if (!may_hold(want, hold, choice)) return give_up(want, hold, choice);
  if (choice.enough) reserve(want, choice);
  say(want, choice);
}

Rank ScalePolicy::Round::rank_of(const Room& room) const {
  switch (room.node->is) {
    case Is::up:
      return Rank::up;
    case Is::coming:
      return room.node->slow ? Rank::slow : Rank::coming;
    case Is::leaving:
      if (room.started) return Rank::coming;
      return limits_.paused || room.node->at_work ? Rank::none : Rank::returning;
    case Is::off:
      if (room.started) return Rank::coming;
      return limits_.paused || room.node->at_work || room.node->not_before > now_ ? Rank::none
                                                                                  : Rank::off;
    case Is::unusable:
      break;
  }
  return Rank::none;
}

bool ScalePolicy::Round::is_hopeless(const ScaleWant& want) const {
  return std::ranges::any_of(hopeless_, [&](const ScaleWant* other) {
    return (want.nodes == 1) == (other->nodes == 1) && want.nodes >= other->nodes &&
           want.each.cpus >= other->each.cpus && want.each.gpus >= other->each.gpus &&
           want.each.memory_bytes >= other->each.memory_bytes;
  });
}

ScalePolicy::Round::Choice ScalePolicy::Round::choose(const ScaleWant& want,
                                                      const std::set<std::string>& unfit) {
  Choice choice;
  const auto count = static_cast<size_t>(want.nodes);
  for (const Rank rank : kRanks) {
    int budget = budget_;
    for (Room& room : rooms_) {
      if (choice.rooms.size() == count) break;
      if (rank_of(room) != rank || !has_room(room, want.each)) continue;
      if (unfit.contains(room.node->name)) continue;
      if (rank == Rank::off && budget-- <= 0) break;
      choice.rooms.push_back(&room);
      if (rank == Rank::up) ++choice.ready;
    }
  }
  const auto missing = static_cast<int>(count - choice.rooms.size());
  if (want.nodes > 1 && missing > 0) {
    for (const Room& room : rooms_) {
      const ScaleNode& node = *room.node;
      if (node.is != Is::up || has_room(room, want.each) || !could_have(node, want.each)) continue;
      if (!unfit.contains(node.name) && choice.in_use < missing) ++choice.in_use;
    }
  }
  choice.enough = choice.in_use == missing;
  return choice;
}

bool ScalePolicy::Round::may_hold(const ScaleWant& want, Hold& hold, Choice& choice) {
  const bool complete = choice.ready == want.nodes;
  if (!complete) {
    hold.complete.reset();
  } else if (!hold.complete) {
    hold.complete = now_;
  }
  if (complete && now_ - *hold.complete >= limits_.fit) {
    // Slurm does not start it there, for whatever reason (a constraint, nodes not shared).
    for (const Room* room : choice.rooms) hold.unfit.insert(room->node->name);
    hold.complete.reset();
    choice = choose(want, hold.unfit);
  }
  if (!choice.enough) {
    if (!hold.unfit.empty()) return false;
    hold.since.reset();  // Nothing is held for it.
    return true;
  }
  if (choice.ready > 0 && !hold.since) hold.since = now_;
  if (choice.ready == 0 && hold.unfit.empty()) hold.since.reset();
  if (hold.complete) earlier(made.again, *hold.complete + limits_.fit);
  if (!hold.since) return true;
  earlier(made.again, *hold.since + limits_.hold);
  return now_ - *hold.since < limits_.hold;
}

void ScalePolicy::Round::give_up(const ScaleWant& want, Hold& hold, const Choice& choice) {
  const auto factor = 1 << std::min(hold.times++, 10);
  hold.given_up_until = now_ + std::min(limits_.again * factor, limits_.again_max);
  hold.why = hold.unfit.empty() ? fmt::format("{} of its {} nodes were there in {} and were let go",
                                              choice.ready, want.nodes, time_in_words(limits_.hold))
                                : "Slurm did not start it on the nodes that were brought up (" +
                                      names_in_words({hold.unfit.begin(), hold.unfit.end()}) + ")";
  made.told.push_back("run " + want.id + ": " + hold.why);
  made.words[want.id] = hold.why + "; tried again in " + time_in_words(hold.given_up_until - now_);
  hold.unfit.clear();
  hold.since.reset();
  hold.complete.reset();
  earlier(made.again, hold.given_up_until);
}

void ScalePolicy::Round::reserve(const ScaleWant& want, const Choice& choice) {
  for (Room* room : choice.rooms) {
    const Rank rank = rank_of(*room);
    if (rank == Rank::returning || rank == Rank::off) start(*room);
    room->taken = true;
    room->cpus -= want.each.cpus;
    room->gpus -= want.each.gpus;
  }
}

void ScalePolicy::Round::start(Room& room) {
  if (room.node->is == Is::off) --budget_;
  room.started = true;
  made.up.push_back(room.node->name);
}

void ScalePolicy::Round::say(const ScaleWant& want, const Choice& choice) {
  WantFacts facts{.nodes = want.nodes,
                  .placed = choice.enough,
                  .ready = {},
                  .starting = {},
                  .in_use = choice.in_use,
                  .full = budget_ == 0};
  for (const Room* room : choice.rooms) {
    (room->node->is == Is::up ? facts.ready : facts.starting).push_back(room->node->name);
  }
  if (choice.enough) {
    made.words[want.id] = words_for_want(facts, limits_, nodes_, now_);
    return;
  }
  // The same for all who ask for as many and get none.
  std::string& words = none_[want.nodes];
  if (words.empty()) words = words_for_want(facts, limits_, nodes_, now_);
  made.words[want.id] = words;
}

void ScalePolicy::Round::keep_minimum() {
  made.wanted = static_cast<int>(made.up.size());
  for (const Room& room : rooms_) {
    if (room.node->is == Is::up || room.node->is == Is::coming) ++made.wanted;
  }
  if (limits_.paused) return;
  for (const Rank rank : {Rank::returning, Rank::off}) {
    for (Room& room : rooms_) {
      if (made.wanted >= limits_.min_nodes) return;
      if (rank_of(room) != rank || (rank == Rank::off && budget_ <= 0)) continue;
      start(room);
      ++made.wanted;
    }
  }
}

void ScalePolicy::Round::take_down() {
  std::vector<const ScaleNode*> idle;
  int up = 0;
  for (const Room& room : rooms_) {
    const ScaleNode& node = *room.node;
    if (node.is == Is::leaving && !node.at_work && !room.started) {
      if (node.not_before > now_) {
        earlier(made.again, node.not_before);
      } else {
        made.down.push_back(node.name);
      }
    }
    if (node.is != Is::up) continue;
    ++up;
    if (!node.busy && !room.taken && !node.at_work) idle.push_back(&node);
  }
  std::ranges::stable_sort(idle, {}, [](const ScaleNode* node) { return node->since; });
  const int floor = limits_.paused ? 0 : limits_.min_nodes;
  for (const ScaleNode* node : idle) {
    if (up <= floor) return;
    if (now_ - node->since < limits_.idle) return earlier(made.again, node->since + limits_.idle);
    made.down.push_back(node->name);
    --made.wanted;
    --up;
  }
}

}  // namespace trainyard::engine::slurm
