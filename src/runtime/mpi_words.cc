#include "runtime/mpi_words.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/id.h"

namespace trainyard::runtime {
namespace {

constexpr size_t kPassedFdsMax = 3;
constexpr int kWordsBacklog =
    4096;  // Of many ranks that begin at once; the kernel has its own limit.

struct Address {
  sockaddr_un address{};
  socklen_t size = 0;
};

// The abstract name space: a NUL first, and no file.
Address address_of(const std::string& name) {
  Address made;
  made.address.sun_family = AF_UNIX;
  const size_t length = std::min(name.size(), sizeof made.address.sun_path - 1);
  std::memcpy(made.address.sun_path + 1, name.data(), length);
  made.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return made;
}

Result<Fd> open_socket() {
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno(errno, "make a socket");
  return fd;
}

bool is_ours(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

}  // namespace

MpiPacket mpi_packet(MpiWord word, int32_t number, std::string_view text) {
  MpiPacket packet;
  packet.word = word;
  packet.number = number;
  text.copy(packet.text, sizeof packet.text - 1);
  return packet;
}

std::string new_mpi_socket_name() { return new_secret("trainyard-mpi-"); }

Result<Fd> listen_mpi(const std::string& name) {
  TRY_SET(Fd fd, open_socket());
  const Address at = address_of(name);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&at.address), at.size) != 0 ||
      listen(fd.get(), kWordsBacklog) != 0) {
    return fail_errno(errno, "listen for MPI's processes");
  }
  return fd;
}

Result<Fd> accept_mpi(int listener) {
  for (;;) {
    Fd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd && errno == EINTR) continue;
    if (!fd) return fail_errno(errno, "accept an MPI process");
    if (is_ours(fd.get())) return fd;
  }
}

Result<Fd> connect_mpi(const std::string& name) {
  TRY_SET(Fd fd, open_socket());
  const Address at = address_of(name);
  while (connect(fd.get(), reinterpret_cast<const sockaddr*>(&at.address), at.size) != 0) {
    if (errno != EINTR) return fail_errno(errno, "reach the supervisor");
  }
  if (!is_ours(fd.get())) return fail(ErrorKind::denied, "the supervisor's socket is another's");
  return fd;
}

Status send_mpi(int fd, const MpiPacket& packet, const std::vector<int>& fds) {
  MpiPacket copy = packet;
  iovec bytes{&copy, sizeof copy};
  alignas(cmsghdr) char control[CMSG_SPACE(kPassedFdsMax * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(head), fds.data(), fds.size() * sizeof(int));
  }
  while (sendmsg(fd, &message, MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return fail_errno(errno, "tell a process of MPI");
  }
  return {};
}

Result<MpiReceived> receive_mpi(int fd) {
  MpiReceived received;
  iovec bytes{&received.packet, sizeof received.packet};
  alignas(cmsghdr) char control[CMSG_SPACE(kPassedFdsMax * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got = 0;
  while ((got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC)) < 0) {
    if (errno != EINTR) return fail_errno(errno, "hear a process of MPI");
  }
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int each = -1;
      std::memcpy(&each, CMSG_DATA(head) + i * sizeof(int), sizeof each);
      received.fds.emplace_back(each);
    }
  }
  if (got != sizeof received.packet) {
    return fail(ErrorKind::unavailable, "the other end of an MPI process's socket is gone");
  }
  received.packet.text[sizeof received.packet.text - 1] = '\0';
  return received;
}

}  // namespace trainyard::runtime
