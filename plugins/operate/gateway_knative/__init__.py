"""Tidegate plugin `knative`: Knative Eventing manifests in a config."""
