"""The pages of the console: each module has the routes of one."""
