"""What plugin authors import: the event, the interfaces of components, the hooks."""
