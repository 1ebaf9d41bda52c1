"""Ships a finished index as a file: publishes it to a channel, pulls it from there, and checks it before it is used."""
