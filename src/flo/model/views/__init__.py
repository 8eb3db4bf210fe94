"""What users see of parts of things: views that are fields of other views."""
