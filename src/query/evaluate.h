#pragma once

#include "base/result.h"
#include "query/ast.h"
#include "query/value.h"

namespace trainyard::query {

// Walks a query's tree over values. Recursion is as deep as the tree is high, which parse() limits.
class Evaluation {
 public:
  explicit Evaluation(Workspace& workspace) : workspace_(workspace) {}

  Result<Value> evaluate(const Node& node, Value current);
  Workspace& workspace() { return workspace_; }

 private:
  Result<Value> run(const Current&, Value current) { return current; }
  Result<Value> run(const Literal& literal, Value) { return Value(literal.value); }
  Result<Value> run(const Field& field, Value current) { return current.member(field.name); }
  Result<Value> run(const Index& index, Value current);
  Result<Value> run(const Slice& slice, Value current);
  Result<Value> run(const Sequence& sequence, Value current);
  Result<Value> run(const AnyOf& any, Value current);
  Result<Value> run(const AllOf& all, Value current);
  Result<Value> run(const Not& negation, Value current);
  Result<Value> run(const Compare& compare, Value current);
  Result<Value> run(const Flatten& flatten, Value current);
  Result<Value> run(const Project& project, Value current);
  Result<Value> run(const ProjectValues& project, Value current);
  Result<Value> run(const Filter& filter, Value current);
  Result<Value> run(const MultiList& list, Value current);
  Result<Value> run(const MultiHash& hash, Value current);
  Result<Value> run(const Call& call, Value current);

  // Adds what `each` gives for `element`, unless that is null.
  Status project_one(const Node& each, Value element, List& into);

  Workspace& workspace_;
};

}  // namespace trainyard::query
