#include "engine/slurm/ssh.h"

#include "engine/slurm/job_script.h"
#include "engine/slurm/program.h"
#include "engine/slurm/queue_text.h"

namespace trainyard::engine::slurm {

Result<std::vector<std::string>> ssh_words(std::string_view path) {
  Result<std::string> ssh = find_program("ssh", path);
  if (!ssh) {
    return fail(ErrorKind::unavailable, "ssh is not on this machine",
                "Install it (Debian: openssh-client).");
  }
  std::vector<std::string> words{*std::move(ssh), "-T"};
  for (const char* option :
       {"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=15", "ServerAliveCountMax=3",
        "RemoteCommand=none", "PermitLocalCommand=no"}) {
    words.insert(words.end(), {"-o", option});
  }
  return words;
}

Error ssh_error(const std::string& login, std::string_view stderr_text) {
  const auto has = [&](std::string_view word) {
    return stderr_text.find(word) != std::string_view::npos;
  };
  std::string hint = "It must work without a question: ssh -o BatchMode=yes " + login;
  if (has("Host key verification failed")) {
    hint = "Its key is not known here, or has changed. Log in once by hand and look at it: ssh " +
           login;
  } else if (has("Permission denied")) {
    hint = "The server's user needs a key there that asks for no passphrase: ssh-copy-id " + login +
           ", or an ssh-agent in its SSH_AUTH_SOCK";
  } else if (has("remote port forwarding failed")) {
    hint = "Nodes report through it: its sshd must allow forwarding (AllowTcpForwarding yes)";
  }
  std::string words = slurm_words(stderr_text);
  if (words.empty()) words = "the connection ended";
  return {ErrorKind::unavailable, "ssh " + login + ": " + words, std::move(hint)};
}

std::string for_any_shell(std::string_view text) { return "sh -c " + shell_quoted(text); }

}  // namespace trainyard::engine::slurm
