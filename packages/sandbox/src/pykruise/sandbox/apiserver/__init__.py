"""The API server of the sandbox. It gets requests and returns responses and watch streams, without sockets."""

from pykruise.sandbox.apiserver.custom.conversion_functions import ConversionFunctions
from pykruise.sandbox.apiserver.plugins.reviewers import Admission, AdmissionChain, ReviewRule
from pykruise.sandbox.apiserver.requests.watches import LineStream, WatchStream
from pykruise.sandbox.apiserver.server import ApiServer

__all__ = [
    "Admission",
    "AdmissionChain",
    "ApiServer",
    "ConversionFunctions",
    "LineStream",
    "ReviewRule",
    "WatchStream",
]
