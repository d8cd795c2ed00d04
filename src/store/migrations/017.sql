-- Runs by their display name: that of run_labels where a run has a row there, else that of its spec.
CREATE INDEX run_specs_named ON run_specs (json_extract(spec, '$.displayName'))
  WHERE json_extract(spec, '$.displayName') <> '';
CREATE INDEX run_labels_named ON run_labels (display_name) WHERE display_name <> '';
