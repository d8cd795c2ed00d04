#pragma once

#include <string_view>
#include <vector>

#include "model/run.h"
#include "wire/json.h"

// What a script tells of its run: JSON lines, written by the Python package into a file of its rank
// and shipped by the supervisor.
//
//   {"k":"metric","n":"loss","v":0.5,"t":µs,"s":step}   one more point; "NaN", "Infinity" as text
//   {"k":"list","n":"loss","v":[0.5,0.4],"t":µs}        several
//   {"k":"row","n":"t","v":{"a":1},"t":µs}              a row of a table
//   {"k":"table","n":"t","v":{"a":[1,2]},"t":µs}        a table
//   {"k":"image","n":"roc","v":{"path":"outputs/roc.png"},"t":µs}
//   {"k":"doc","n":"m","v":…,"t":µs}                    any JSON
//   {"k":"param","n":"lr","v":"0.1"}
//   {"k":"tag","n":"k","v":"v"|null}   {"k":"property","n":"k","v":"v"}
//   {"k":"child","r":ID,"n":"display name","t":µs}      an interactive child run of this one, or,
//                                                       with "p": ID, of that child of it
//   {"k":"end","r":ID,"v":"Completed","e":"why"}        the child's end
//   {"k":"end","v":"Failed","e":"why"}                  the run is to fail when its processes end
//
// Any line may have "r": the child it is about.
namespace trainyard::wire {

enum class RecordKind { points, parameter, tag, property, child, end };

struct Record {
  RecordKind kind = RecordKind::points;
  std::string run;          // The child it is about; empty: the run itself.
  std::string parent;       // child: of which child; empty: of the run itself.
  std::string name;         // Of metric, parameter, tag, property; a child's display name.
  std::string metric_kind;  // points: scalar, list, row, table, image, doc.
  std::vector<Point> points;
  std::string value;     // parameter, tag, property; end: the status.
  bool removes = false;  // tag: null.
  std::string error;     // end.
  WallTime at{};
};

// One line. `now` where it has no time, or one that lies ahead. `invalid` for what is no record.
Result<Record> parse_record(std::string_view line, WallTime now);

// A point's value as JSON: a number, or what was told.
Json point_value(const Point& point);

}  // namespace trainyard::wire
