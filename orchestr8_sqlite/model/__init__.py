"""Records that the other packages exchange: of a library, of requests and answers; parameters and URIs."""
