"""The admin API's routes, resources and documents; `gateway_core.admin` serves them."""
