"""Arguments of calls: to the fields of messages, and refusals of fields to words about them."""
