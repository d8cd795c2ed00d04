#pragma once

#include <string>

#include "env/build.h"

namespace trainyard::env {

// Packages on top of an image: a build folder with a Dockerfile of ours.
struct ImageLayer {
  std::map<std::string, std::string> files;  // By name.
  std::map<std::string, std::string> arguments;
};
ImageLayer packages_layer(const Environment& environment, const std::string& image,
                          const ImageConfig& config, const Settings& settings);

// What a build needs to know to reach the network: proxies.
std::map<std::string, std::string> proxy_arguments(const Settings& settings);

}  // namespace trainyard::env
