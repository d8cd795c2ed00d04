#include "supervisor/uplink.h"

#include <algorithm>

namespace trainyard::supervisor {
namespace {

constexpr seconds kHeartbeatEvery{5};
constexpr seconds kScanEvery{1};
constexpr milliseconds kCompanyWait{10};  // A report waits this long for others.
constexpr milliseconds kConsoleGap{2};    // Between two sendings of a few lines.
constexpr size_t kConsoleHurry = 64 << 10;
constexpr size_t kFrameSize = 1 << 20;
constexpr size_t kReportsPerCall = 64;
constexpr int kFilePiecesPerRound = 8;
constexpr milliseconds kUplinkPauseFirst{20};
constexpr milliseconds kUplinkPauseMax{1000};
constexpr int kRefusalsMax = 10;  // Of our token or run: then we are not wanted.
// At the end, of a server that answers and does not take what we have.
constexpr int kDrainTriesMax = 30;
constexpr int kNoSpaceTriesMax = 8;
constexpr seconds kDrainStuckMax{600};  // The same, where it answers that it cannot just now.
constexpr seconds kReportsAgain{1};     // Reports that the server did not take are sent again.
constexpr size_t kSamplesMax = 4096;    // Kept while the server is away; then every other one.
constexpr size_t kSamplesPerCall = 256;

bool goes_at_once(ReportKind kind) {
  return kind == ReportKind::preparing || kind == ReportKind::ready ||
         kind == ReportKind::rank_failed || kind == ReportKind::ended;
}

}  // namespace

Uplink::Uplink(Clock& clock, Options options, std::vector<Spool*> spools, LogFiles& files,
               Records& records, SystemLog& log, std::function<void()> on_news)
    : clock_(clock),
      options_(std::move(options)),
      spools_(std::move(spools)),
      files_(files),
      records_(records),
      log_(log),
      on_news_(std::move(on_news)),
      client_(options_.address, options_.token),
      server_(client_, options_.attempt, options_.node),
      sent_(spools_.size(), 0),
      asked_(spools_.size(), !options_.resumed) {}

Uplink::~Uplink() {
  thread_.request_stop();
  client_.interrupt();
}

void Uplink::start() {
  const SteadyTime now = clock_.steady();
  contact_ = now;
  heartbeat_at_ = now + kHeartbeatEvery;
  scan_at_ = now + kScanEvery;
  thread_ = std::jthread([this](std::stop_token stop) { run(stop); });
}

void Uplink::add(const Report& report, SteadyTime happened) {
  const SteadyTime due =
      clock_.steady() + (goes_at_once(report.kind) ? milliseconds(0) : kCompanyWait);
  {
    std::lock_guard lock(mutex_);
    if (report.kind == ReportKind::sample) {
      state_.samples.push_back({report, happened});
      if (state_.samples.size() >= kSamplesMax) {
        size_t at = 0;
        std::erase_if(state_.samples, [&](const Waiting&) { return at++ % 2 == 0; });
      }
    } else {
      state_.reports.push_back({report, happened});
    }
    state_.reports_due = std::min(state_.reports_due, due);
  }
  changed_.notify_all();
}

void Uplink::console_grew() {
  {
    std::lock_guard lock(mutex_);
    if (state_.console_dirty) return;  // It has yet to look.
    state_.console_dirty = true;
  }
  changed_.notify_all();
}

News Uplink::news() {
  std::lock_guard lock(mutex_);
  return state_.news;
}

void Uplink::orders_seen(const Orders& orders) {
  {
    std::lock_guard lock(mutex_);
    News& news = state_.news;
    const bool fresh = (orders.cancel && !news.cancel) || (orders.go && !news.go) ||
                       (!orders.stop.empty() && news.stop.empty()) || (orders.done && !news.done);
    if (!fresh) return;
    news.cancel = news.cancel || orders.cancel;
    if (orders.go && !std::exchange(news.go, true)) news.hosts = orders.hosts;
    if (news.stop.empty()) news.stop = orders.stop;
    news.done = news.done || orders.done;
  }
  on_news_();
}

void Uplink::fence(std::string why) {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(state_.news.fenced, true)) return;
    state_.news.why = std::move(why);
  }
  changed_.notify_all();
  on_news_();
}

bool Uplink::answered() {
  std::lock_guard lock(mutex_);
  return state_.answered;
}

bool Uplink::unreachable() {
  std::lock_guard lock(mutex_);
  return state_.unreachable;
}

std::string Uplink::epoch() {
  std::lock_guard lock(mutex_);
  return state_.epoch;
}

Uplink::Drained Uplink::drain() {
  std::unique_lock lock(mutex_);
  state_.draining = true;
  changed_.notify_all();
  changed_.wait(lock,
                [&] { return state_.drained || state_.news.fenced || state_.news.abandoned; });
  if (state_.news.fenced) return {Outcome::fenced, state_.news.why, {}};
  if (!state_.drained) return {Outcome::abandoned, {}, {}};
  if (!state_.given_up.empty()) return {Outcome::given_up, state_.given_up, state_.epoch};
  return {Outcome::complete, {}, state_.epoch};
}

Uplink::EndOutcome Uplink::wait_ended(int64_t seq, const std::string& epoch) {
  std::unique_lock lock(mutex_);
  state_.end_epoch = epoch;
  state_.reports_due = SteadyTime::min();
  changed_.notify_all();
  changed_.wait(lock, [&] {
    return state_.acknowledged >= seq || state_.news.fenced || state_.news.abandoned ||
           state_.epoch != epoch;
  });
  if (state_.acknowledged >= seq) return EndOutcome::acknowledged;
  if (state_.news.fenced) return EndOutcome::fenced;
  return state_.news.abandoned ? EndOutcome::abandoned : EndOutcome::restarted;
}

void Uplink::run(std::stop_token stop) {
  Round round;
  while (next_round(stop, round)) {
    settle(round, work(round));
    look_at_outage();
  }
}

void Uplink::finishing() {
  std::lock_guard lock(mutex_);
  if (!state_.finishing) state_.finishing = clock_.steady();
}

// Only answers to reports count: they are what the server knows us to be alive by, and after the
// limit it gives the run to other nodes.
void Uplink::look_at_outage() {
  const SteadyTime now = clock_.steady();
  bool told = false;
  {
    std::lock_guard lock(mutex_);
    News& news = state_.news;
    const auto passed = [&](seconds limit, SteadyTime since) {
      return limit > seconds(0) && now - since >= limit;
    };
    if (!news.outage && passed(options_.outage_limit, contact_)) news.outage = told = true;
    const bool waits = state_.finishing && !news.abandoned;
    if (waits && passed(options_.unsent_wait, std::max(*state_.finishing, contact_))) {
      news.abandoned = told = true;
    }
  }
  if (!told) return;
  changed_.notify_all();
  on_news_();
}

// Waits until there is something to do. False: we are to stop, or not wanted any more.
bool Uplink::next_round(std::stop_token stop, Round& round) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested() && !state_.news.fenced) {
    const SteadyTime now = clock_.steady();
    round = {.reports = now >= std::min(state_.reports_due, heartbeat_at_),
             .scan = now >= scan_at_ || (state_.draining && !scanned_last_),
             .draining = state_.draining && !state_.drained};
    const uint64_t console = console_pending();
    state_.console_dirty = false;
    const bool hurry = round.reports || round.scan || round.draining || files_.pending() ||
                       records_.pending() || console >= kConsoleHurry;
    if (now >= pause_until_ && (hurry || (console > 0 && now >= console_at_))) return true;
    SteadyTime wake = std::min({state_.reports_due, heartbeat_at_, scan_at_});
    if (console > 0) wake = std::min(wake, console_at_);
    wake = hurry ? pause_until_ : std::max(wake, pause_until_);
    changed_.wait_for(lock, stop, wake - now, [&] {
      return state_.news.fenced ||
             (clock_.steady() >= pause_until_ &&
              (state_.console_dirty || clock_.steady() >= state_.reports_due ||
               (state_.draining && !state_.drained)));
    });
  }
  return false;
}

Status Uplink::work(const Round& round) {
  if (round.reports) TRY(send_reports());
  TRY(send_consoles());
  if (round.scan) {
    files_.scan(round.draining ? LogFiles::Last::yes : LogFiles::Last::no);
    records_.scan();
    scan_at_ = clock_.steady() + kScanEvery;
    scanned_last_ = round.draining;
  }
  return send_files();
}

Status Uplink::send_reports() {
  std::string epoch;
  const std::vector<Report> reports = reports_to_send(epoch);
  const SteadyTime sent = clock_.steady();
  const Result<Orders> orders = server_.report(reports, options_.instance, epoch);
  if (!orders) {
    reports_refused_ = true;
    std::lock_guard lock(mutex_);
    state_.reports_due = SteadyTime::min();  // Again, after the pause.
    state_.unreachable = true;
    return std::unexpected(orders.error());
  }
  contact_ = sent;
  answered_at_ = clock_.steady();
  heartbeat_at_ = answered_at_ + kHeartbeatEvery;
  take_answer(reports, *orders);
  // Whatever became of the reports: orders are obeyed.
  orders_seen(*orders);
  return {};
}

// What the server does not have. `epoch`: under which an end is sent.
std::vector<Report> Uplink::reports_to_send(std::string& epoch) {
  std::vector<Report> reports;
  std::lock_guard lock(mutex_);
  const SteadyTime now = clock_.steady();
  const auto send = [&](const Waiting& waiting) {
    reports.push_back(waiting.report);
    reports.back().age_us = std::max<int64_t>(0, (now - waiting.happened).count());
  };
  for (const Waiting& waiting : state_.samples) {
    if (reports.size() == kSamplesPerCall) break;
    send(waiting);
  }
  const size_t samples = reports.size();
  for (const Waiting& waiting : state_.reports) {
    if (waiting.report.seq <= state_.acknowledged) continue;
    const bool may_end = state_.drained && state_.end_epoch == state_.epoch;
    if (waiting.report.kind == ReportKind::ended && !may_end) break;
    if (reports.size() - samples == kReportsPerCall) break;
    send(waiting);
  }
  state_.reports_due = SteadyTime::max();
  epoch = state_.epoch;
  return reports;
}

void Uplink::take_answer(std::span<const Report> sent, const Orders& orders) {
  int64_t last = 0;
  int64_t last_sample = 0;
  for (const Report& report : sent) {
    last = std::max(last, report.seq);
    last_sample = std::max(last_sample, report.sample);
  }
  bool restarted = false;
  bool first = false;
  int64_t before = 0;
  {
    std::lock_guard lock(mutex_);
    before = std::exchange(state_.acknowledged, orders.seq_acknowledged);
    while (!state_.samples.empty() && state_.samples.front().report.sample <= last_sample) {
      state_.samples.pop_front();
    }
    restarted = state_.answered && state_.epoch != orders.epoch;
    first = !std::exchange(state_.answered, true);
    state_.unreachable = false;
    state_.epoch = orders.epoch;
    if (restarted) {
      state_.drained = false;
      state_.given_up.clear();
    }
    const bool behind = orders.seq_acknowledged < std::max(last, before);
    const bool moved = orders.seq_acknowledged != before;
    SteadyTime due = behind ? clock_.steady() + kReportsAgain : SteadyTime::max();
    if ((behind && moved) || !state_.samples.empty()) due = SteadyTime::min();
    state_.reports_due = std::min(state_.reports_due, due);
  }
  changed_.notify_all();
  if (first) on_news_();
  if (restarted) compare_all();
  if (orders.seq_acknowledged < before) {
    log_.line("the server has reports up to " + std::to_string(orders.seq_acknowledged) + " of " +
              std::to_string(before) + " that it had: the rest is sent again");
  }
}

// Another start of the server: perhaps it has less than it said.
void Uplink::compare_all() {
  std::fill(asked_.begin(), asked_.end(), false);
  files_.compare_all();
  records_.compare_all();
}

Status Uplink::send_consoles() {
  bool any = false;
  // Each rank's turn is one piece, and the next round begins with the next rank.
  for (size_t i = 0; i < spools_.size(); ++i) {
    const size_t rank = (first_rank_ + i) % spools_.size();
    if (asked_[rank] && spools_[rank]->size() <= sent_[rank]) continue;
    if (!asked_[rank] && spools_[rank]->size() == 0) continue;
    TRY(send_console(rank));
    any = true;
  }
  if (!spools_.empty()) first_rank_ = (first_rank_ + 1) % spools_.size();
  if (any) console_at_ = clock_.steady() + kConsoleGap;
  return {};
}

Status Uplink::send_console(size_t rank) {
  Spool& spool = *spools_[rank];
  const int number = options_.first_rank + static_cast<int>(rank);
  if (!asked_[rank]) {
    buffer_.clear();
    TRY_SET(const client::AttemptApi::Kept kept, server_.console(number, 0, buffer_));
    sent_[rank] = std::min(kept.size, spool.size());
    asked_[rank] = true;
    return {};
  }
  // Only a server that went back behind what was durable there (a backup was restored) asks for
  // bytes that are not here any more.
  const bool lost = sent_[rank] < spool.readable_from();
  const uint64_t from = lost ? spool.readable_from() : sent_[rank];
  if (lost) {
    log_.line("rank " + std::to_string(number) + ": the server has lost " +
              std::to_string(from - sent_[rank]) + " bytes of its console that it had for good");
  }
  TRY_SET(const uint64_t next, spool.read_frames(from, kFrameSize, buffer_));
  TRY_SET(
      const client::AttemptApi::Kept kept,
      server_.console(number, from, buffer_,
                      lost ? client::AttemptApi::Before::lost : client::AttemptApi::Before::sent));
  sent_[rank] = std::min(kept.size, spool.size());
  if (kept.size <= from && next > from) {
    return fail(ErrorKind::unavailable, "the server took nothing of the console");
  }
  spool.release(std::min(kept.durable, kept.size));
  return {};
}

Status Uplink::send_files() {
  for (int i = 0; i < kFilePiecesPerRound && files_.pending(); ++i) {
    TRY(files_.send_next(server_, buffer_));
  }
  for (int i = 0; i < kFilePiecesPerRound && records_.pending(); ++i) {
    TRY(records_.send_next(server_, buffer_));
  }
  return {};
}

void Uplink::settle(const Round& round, const Status& status) {
  if (!status) {
    settle_failure(round, status.error());
    return;
  }
  if (std::exchange(away_, false)) log_.line("the server answers again");
  pause_ = milliseconds(0);
  pause_until_ = SteadyTime{};
  refusals_ = 0;
  stuck_since_.reset();
  if (round.draining && scanned_last_ && !files_.pending() && !records_.pending() &&
      console_pending() == 0) {
    std::lock_guard lock(mutex_);
    // Before the first answer it is not known who has it.
    state_.drained = state_.answered;
    changed_.notify_all();
  }
}

void Uplink::settle_failure(const Round& round, const Error& error) {
  pause_ = std::clamp(pause_ * 2, kUplinkPauseFirst, kUplinkPauseMax);
  pause_until_ = clock_.steady() + pause_;
  const bool of_reports = std::exchange(reports_refused_, false);
  if (error.kind == ErrorKind::unavailable || error.kind == ErrorKind::cancelled) {
    std::error_code ignored;
    if (!fs::exists(options_.folder, ignored) && !ignored) {
      fence("the attempt's folder is gone");
      return;
    }
    if (pause_ == kUplinkPauseMax && !std::exchange(away_, true)) {
      log_.line("the server does not answer (" + error.message + "); what is new is kept here");
    }
    if (!of_reports && !stuck_since_) stuck_since_ = clock_.steady();
    // One that answers reports all the while is not away: it does not take the rest.
    if (round.draining && stuck_since_ && answered_at_ - *stuck_since_ >= kDrainStuckMax) {
      std::lock_guard lock(mutex_);
      state_.drained = true;
      state_.given_up = error.message;
      changed_.notify_all();
    }
    return;
  }
  ++refusals_;
  const bool unwelcome = error.kind == ErrorKind::denied || error.kind == ErrorKind::not_found;
  if (of_reports &&
      (error.kind == ErrorKind::conflict || (unwelcome && refusals_ >= kRefusalsMax))) {
    fence(error.message);
    return;
  }
  bool told = false;
  {
    std::lock_guard lock(mutex_);
    // Whether we are still wanted, only the answer to a report says.
    if (!of_reports) state_.reports_due = SteadyTime::min();
    if (error.kind == ErrorKind::no_space && !state_.news.no_space) {
      state_.news.no_space = told = true;
      state_.news.why = error.message;
    }
    const int tries_max = error.kind == ErrorKind::no_space ? kNoSpaceTriesMax : kDrainTriesMax;
    if (round.draining && !of_reports && refusals_ >= tries_max) {
      state_.drained = true;
      state_.given_up = error.message;
      changed_.notify_all();
    }
  }
  if (told) on_news_();
}

uint64_t Uplink::console_pending() const {
  uint64_t pending = 0;
  for (size_t rank = 0; rank < spools_.size(); ++rank) {
    const uint64_t size = spools_[rank]->size();
    pending += asked_[rank] ? size - sent_[rank] : size;
  }
  return pending;
}

}  // namespace trainyard::supervisor
