#include "model/handover.h"

#include <doctest/doctest.h>

using namespace trainyard;

TEST_CASE("the attempt's token is the hash of ticket and nonce, as sha256sum has it") {
  const std::string nonce(64, 'a');
  const auto made = parse_handover("tyh_ticket." + nonce);
  REQUIRE(made);
  CHECK(made->ticket == "tyh_ticket");
  // printf %s tyh_ticket.aaa… | sha256sum
  CHECK(made->token == "tya_0e56a3f858e2a8782a168ad61f5ea8a9f8ba1e9dcdb3157c913610bad1d86bcb");
  CHECK(parse_handover("tyh_ticket." + std::string(64, 'b'))->token != made->token);
}

TEST_CASE("a ticket without a nonce, and a token of another kind, hand over nothing") {
  const std::string nonce(64, 'a');
  for (const std::string& text :
       {std::string("tyh_ticket"), std::string("tyh_ticket."), "tya_ticket." + nonce,
        "tyh_ticket." + nonce + "a", nonce, std::string()}) {
    CAPTURE(text);
    CHECK_FALSE(parse_handover(text));
  }
}
