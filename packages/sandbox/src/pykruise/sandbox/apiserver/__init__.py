"""The API server of the sandbox: requests in, answers and watch streams out, no sockets."""

from pykruise.sandbox.apiserver.admission import Admission, AdmissionChain, ReviewRule
from pykruise.sandbox.apiserver.conversion_functions import ConversionFunctions
from pykruise.sandbox.apiserver.server import ApiServer
from pykruise.sandbox.apiserver.watches import LineStream, WatchStream

__all__ = [
    "Admission",
    "AdmissionChain",
    "ApiServer",
    "ConversionFunctions",
    "LineStream",
    "ReviewRule",
    "WatchStream",
]
