"""Records that the other rooms pass on: of a library, of requests and answers; parameters and URIs."""
