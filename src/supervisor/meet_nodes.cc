#include <poll.h>
#include <unistd.h>

#include "supervisor/rank_environment.h"
#include "supervisor/steps.h"

namespace trainyard::supervisor {
namespace {

constexpr milliseconds kResolveTimeout{10'000};
constexpr std::string_view kLoopback = "127.0.0.1";

// The node as the others will find it. A port for ranks to meet at, and one behind it for each.
// Nodes that share a machine need different ports: many programs listen at all addresses.
Result<Host> make_host(Context& context, const std::string& address) {
  const bool shares = !context.assignment.node_address.empty();
  TRY_SET(HeldPorts ports, HeldPorts::take(shares ? "0.0.0.0" : address, context.facts.ranks + 1));
  Host host{.name = node_name(context.assignment), .address = address, .port = ports.first()};
  context.ports = std::move(ports);
  return host;
}

void wait_for_word(Context& context) {
  pollfd polled[2] = {{context.wake_fd, POLLIN, 0}, {context.signal_fd, POLLIN, 0}};
  poll(polled, 2, -1);
  uint64_t count = 0;
  if (polled[0].revents != 0 && read(context.wake_fd, &count, sizeof count) < 0) return;
}

}  // namespace

// The nodes of an attempt begin together: no rank starts before the last node is ready, and then
// each knows where the others are. One node alone waits for nobody.
Status meet_nodes(Context& context) {
  const RunSpec& spec = context.assignment.spec;
  if (!is_distributed(spec)) return {};
  if (spec.nodes == 1) {
    TRY_SET(const Host host, make_host(context, std::string(kLoopback)));
    context.hosts = {host};
    return {};
  }
  std::string address = context.assignment.node_address;
  if (address.empty()) {
    TRY_SET(const http::Address server, http::Address::parse_url(context.assignment.server_url));
    TRY_SET(address, address_toward(server, kResolveTimeout));
  }
  Report ready;
  ready.kind = ReportKind::ready;
  TRY_SET(ready.host, make_host(context, address));
  context.log.line("ready, as " + ready.host.name + " at " + address + ", port " +
                   std::to_string(ready.host.port));
  context.report(std::move(ready));
  if (!context.orders) context.watch_orders();
  while (!context.stops_early()) {
    const News news = context.uplink.news();
    if (news.go) {
      if (news.hosts.size() != static_cast<size_t>(spec.nodes)) {
        return fail(ErrorKind::internal, "the server named " + std::to_string(news.hosts.size()) +
                                             " of " + std::to_string(spec.nodes) + " nodes");
      }
      context.hosts = news.hosts;
      context.log.line("all " + std::to_string(spec.nodes) + " nodes are ready");
      return {};
    }
    wait_for_word(context);
  }
  return {};
}

}  // namespace trainyard::supervisor
