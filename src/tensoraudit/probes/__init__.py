"""Protocol, pool and worker; one folder per framework, the only place that imports it."""
