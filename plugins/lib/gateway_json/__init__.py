"""JSON text that RFC 8259 allows and the fast parser refuses."""
