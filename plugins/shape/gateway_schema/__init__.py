"""The schema of JSON data, as samples of it show it."""
