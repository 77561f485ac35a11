"""One file per format, all drawn from one `Result`."""
