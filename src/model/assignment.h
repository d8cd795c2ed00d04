#pragma once

#include <string>
#include <vector>

#include "base/id.h"
#include "model/run_spec.h"

namespace trainyard {

// All that a supervisor is told: the file assignment.json (0600) in its attempt's folder. The token
// travels here and never in arguments.
struct Assignment {
  std::string run;
  int attempt = 1;
  std::string token;          // The attempt's: refused once a newer attempt exists.
  std::string server_socket;  // The server's Unix socket, where supervisor and server share a host.
  std::string server_url;     // http://host:port, for ranks and for supervisors elsewhere.
  std::string blobs;          // A folder on this node that may hold blobs; empty: all over the API.
  std::string environments;   // The server's shelf of them, where it is on this node; or empty.
  std::string user;           // Who submitted.
  std::string workspace_id;
  std::string experiment_id;
  std::string subscription_id;
  std::string resource_group;
  int node = 0;  // Which of the attempt's nodes this is, from 0.
  // Of a node that is a part of a machine (engine/slots.h): its name, and a loopback address of its
  // own. Empty: those of the machine.
  std::string node_name;
  std::string node_address;
  bool submitter_here = false;  // The submitter's variables mean something on this node.
  std::string folder;           // Where on the node the attempt works; empty: where the file lies.
  std::vector<int> gpus;        // Device numbers on this node, for this attempt alone.
  bool gives_gpus = false;      // The target gives out GPUs: those of others are hidden.
  std::string outputs;          // The tree of outputs/ that the attempt before left; empty: none.
  // Where a scheduler may give the nodes to others while the server is away. 0: for ever.
  int64_t outage_s = 0;  // So long after the last answer of the server its ranks are stopped.
  int64_t unsent_s = 0;  // So long what is unsent is kept back once they have ended.
  RunSpec spec;

  AttemptId id() const { return {RunId{run}, attempt}; }

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("run", self.run);
    f("attempt", self.attempt);
    f("token", self.token);
    f("serverSocket", self.server_socket);
    f("serverUrl", self.server_url);
    f("blobs", self.blobs);
    f("environments", self.environments);
    f("user", self.user);
    f("workspaceId", self.workspace_id);
    f("experimentId", self.experiment_id);
    f("subscriptionId", self.subscription_id);
    f("resourceGroup", self.resource_group);
    f("node", self.node);
    f("nodeName", self.node_name);
    f("nodeAddress", self.node_address);
    f("submitterHere", self.submitter_here);
    f("folder", self.folder);
    f("gpus", self.gpus);
    f("givesGpus", self.gives_gpus);
    f("outputs", self.outputs);
    f("outageS", self.outage_s);
    f("unsentS", self.unsent_s);
    f("spec", self.spec);
  }
};

}  // namespace trainyard
