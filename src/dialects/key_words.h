#pragma once

#include "dialects/keys.h"

// The words of a table of keys, short enough for a row to fit a line.
namespace trainyard::dialects {

inline constexpr auto kAny = Type::any;
inline constexpr auto kText = Type::text;
inline constexpr auto kWhole = Type::whole;
inline constexpr auto kBool = Type::boolean;
inline constexpr auto kTexts = Type::texts;
inline constexpr auto kList = Type::list;
inline constexpr auto kMap = Type::map;
inline constexpr auto kWorks = Support::works;
inline constexpr auto kNoEffect = Support::no_effect;
inline constexpr auto kLater = Support::later;
inline constexpr auto kRefused = Support::refused;

inline constexpr std::string_view kNotHere = "belongs to another service";

}  // namespace trainyard::dialects
