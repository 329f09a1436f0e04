"""From which literals does a statement draw?

TAME values stay in their types under most operators; EDGE values are the ends of the types, NaN,
±0, infinities, odd texts. ARGUMENTS has values for arguments that accept only a few (formats,
fields, counts); `None` as position there stands for every argument.
"""

# fmt: off
TAME = {
    "bool": ["true", "false"],
    "int2": ["0", "1", "2", "-1", "5", "7", "10"],
    "int4": ["0", "1", "2", "3", "-1", "5", "10", "42", "100"],
    "int8": ["0", "1", "2", "-3", "7", "100", "1000"],
    "float4": ["0", "1", "0.5", "-2.25", "3.5", "10"],
    "float8": ["0", "1", "0.5", "-1.5", "2.5", "100.25", "0.1"],
    "numeric": ["0.0", "1.0", "0.5", "2.5", "-1.25", "10.00", "0.1", "3.14159", "100.50"],
    "text": ["", "a", "b", "abc", "ABC", "hello", "x", "12", "a%", "_b", "é"],
    "bytea": ["\\x", "\\x6162", "\\x00ff", "\\x616263"],
    "date": ["2024-02-29", "2024-01-01", "2023-12-31", "2000-03-01", "1999-12-31"],
    "time": ["00:00:00", "12:00:00", "23:59:59.999999", "04:05:06.789"],
    "timestamp": ["2024-02-29 13:45:06.789", "2024-01-01 00:00:00", "2024-03-10 02:30:00", "1999-12-31 23:59:59"],
    "timestamptz": ["2024-02-29 13:45:06.789+00", "2024-01-01 00:00:00+02", "2024-03-31 01:30:00+00", "2000-01-01 12:00:00-08"],
    "interval": ["1 day", "2 hours", "1 month", "-3 days", "1 mon 2 days 03:04:05.5", "30 days", "15 minutes", "1 year"],
    "int4[]": ["{}", "{1}", "{1,2,3}", "{2,NULL}", "{5,5}"],
    "text[]": ["{}", "{a}", "{a,b}", "{NULL,abc}", "{\"\"}"],
    "int8[]": ["{1,2}", "{}", "{NULL,100}"], "float8[]": ["{0.5,1}", "{NaN,-1.5}"], "numeric[]": ["{1.5,0.50}", "{0.0000001,100}", "{NULL,2.5}"],
    "date[]": ["{2024-01-01,2024-02-29}", "{}"], "bool[]": ["{t,f,NULL}"],
    "uuid": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000"],
    "jsonb": ["{\"a\": 1}", "[1, 2, {\"b\": null}]", "{\"a\": {\"b\": [1, \"x\"]}}", "1.50", "\"s\"", "null", "[]"],
    "json": ["{\"a\": 1}", "[1,2]", "{\"a\":{\"b\":[1,\"x\"]}}", "null"],
}

EDGE = {
    "int2": ["32767", "-32768"],
    "int4": ["2147483647", "-2147483648", "46341"],
    "int8": ["9223372036854775807", "-9223372036854775808", "4611686018427387904", "9007199254740993"],
    "float4": ["NaN", "Infinity", "-Infinity", "-0", "3.4028235e38", "1e-45"],
    "float8": ["NaN", "Infinity", "-Infinity", "-0", "1e300", "1.7976931348623157e308", "5e-324", "0.30000000000000004"],
    "numeric": ["NaN", "99999999999999999999999999999999999999", "0.00000000000000000001", "1e20", "12345678901234567890.123456789",
                "2.675", "0.125", "-0.5", "1.005", "Infinity"],
    "text": [" ", "  pad ", "NULL", "a\\b", "x'y", "日本", "😀", "2024-02-29", "-1.5", "true", "{1,2}", "A B", "%", "\t"],
    "bytea": ["\\xff", "\\x5c", "\\x27"],
    "date": ["0001-01-01", "9999-12-31", "infinity", "-infinity", "1582-10-15", "1900-02-28", "0044-03-15 BC"],
    "time": ["24:00:00", "00:00:00.000001"],
    "timestamp": ["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "infinity", "-infinity", "1677-09-21 00:12:43", "2262-04-11 23:47:17", "1969-12-31 23:59:59.999999"],
    "timestamptz": ["9999-12-31 23:59:59.999999+00", "infinity", "-infinity", "1900-01-01 00:00:00+00"],
    "interval": ["0", "-1 days +02:00:00", "1000 years", "25 hours", "-00:00:00.000001", "1 mon -1 days"],
    "int4[]": ["{NULL}", "{{1,2},{3,4}}", "{2147483647}"],
    "text[]": ["{\"a,b\",\"q\\\"r\"}", "{\"NULL\",NULL}"],
}

NUMBERS = ("int2", "int4", "int8", "float4", "float8", "numeric")
COUNT = ["0", "1", "2", "3", "5"]
PLACE = ["-1", "0", "1", "2", "3", "10"]
FIELDS = {
    "date": ["year", "month", "day", "dow", "isodow", "doy", "week", "quarter", "isoyear", "decade", "century", "millennium", "epoch", "julian"],
    "time": ["hour", "minute", "second", "milliseconds", "microseconds", "epoch"],
    "interval": ["year", "month", "day", "hour", "minute", "second", "milliseconds", "microseconds", "epoch", "quarter", "decade"],
}
FIELDS["timestamp"] = FIELDS["date"] + FIELDS["time"]
FIELDS["timestamptz"] = FIELDS["timestamp"] + ["timezone", "timezone_hour"]
TRUNC = ["microseconds", "milliseconds", "second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade", "century", "millennium"]
ZONES = ["UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "+03", "-05:30", "Australia/Lord_Howe"]
PATTERNS = ["a", "a.", "^a", "b$", "[a-c]+", "(a)(b)?", "\\d+", "a|b", "x*", ".", "\\s", "(?i)abc", "[[:alpha:]]+"]
DATES = ["YYYY-MM-DD", "DD Mon YYYY", "FMMonth FMDD, YYYY", "Day", "HH24:MI:SS", "HH12:MI AM", "Q", "WW", "IYYY-IW-ID", "DDD", "J", "YY", "MS US",
         "Dy DDth", "\"week\" W", "SSSS", "MONTH", "mon", "CC", "RM", "Y,YYY", "D", "TZ", "FMHH:MI", "BC"]
DIGITS = ["999", "9999.99", "9,999.9", "000.00", "FM999.9", "S999", "999MI", "999PR", "$999", "99V9", "RN", "9.9EEEE", "FM0000", "L99", "999D9", "9G999", "SG99"]

ARGUMENTS = {
    ("repeat", 1): COUNT, ("lpad", 1): COUNT + ["8"], ("rpad", 1): COUNT + ["8"], ("left", 1): PLACE + ["-2"], ("right", 1): PLACE + ["-2"],
    ("split_part", 1): ["a", "b", ",", " ", "", "l"], ("split_part", 2): ["1", "2", "3", "-1", "-2"], ("substr", 1): PLACE, ("substr", 2): COUNT,
    ("substring", 1): {"int4": PLACE, "text": PATTERNS}, ("substring", 2): {"int4": COUNT, "text": ["#", "\\"]}, ("overlay", 2): ["1", "2", "3", "10"], ("overlay", 3): COUNT,
    ("chr", 0): ["65", "97", "233", "8364", "128512", "1"], ("factorial", 0): ["0", "1", "5", "20", "25"], ("get_byte", 1): ["0", "1"], ("get_bit", 1): ["0", "3", "9"],
    ("set_byte", 1): ["0", "1"], ("set_byte", 2): ["0", "65", "255"], ("set_bit", 1): ["0", "3"], ("set_bit", 2): ["0", "1"],
    ("date_part", 0): FIELDS, ("extract", 0): FIELDS, ("date_trunc", 0): TRUNC, ("date_trunc", 2): ZONES, ("date_bin", 0): ["15 minutes", "1 day", "2 hours", "30 seconds", "7 days"],
    ("timezone", 0): {"text": ZONES, "interval": ["02:00:00", "-05:30:00", "00:00:00"]}, ("round", 1): ["0", "1", "2", "-1", "3"], ("trunc", 1): ["0", "1", "2", "-1"],
    ("power", 1): ["0", "1", "2", "-1", "0.5", "3"], ("^", 1): ["0", "1", "2", "-1", "0.5", "3"], ("exp", 0): ["0", "1", "-1", "2.5", "10"],
    ("log", 0): ["10", "2", "100", "0.5"], ("log", 1): ["1", "8", "100", "0.1"], ("ln", 0): ["1", "2", "0.5", "100"], ("log10", 0): ["1", "1000", "0.5", "7"],
    ("sqrt", 0): ["0", "2", "4", "0.25", "10"], ("|/", 0): ["0", "2", "4", "0.25"], ("acos", 0): ["0", "1", "-1", "0.5"], ("asin", 0): ["0", "1", "-1", "0.5"],
    ("acosd", 0): ["0", "1", "-1", "0.5"], ("asind", 0): ["0", "1", "-1", "0.5"], ("acosh", 0): ["1", "2", "10"], ("atanh", 0): ["0", "0.5", "-0.5"],
    ("width_bucket", 1): ["0", "-10"], ("width_bucket", 2): ["10", "100"], ("width_bucket", 3): ["5", "10"], ("cosh", 0): ["0", "1", "-2"], ("sinh", 0): ["0", "1", "-2"],
    ("encode", 1): ["hex", "base64", "escape"], ("decode", 0): ["6162", "", "00ff"], ("decode", 1): ["hex"], ("convert_from", 0): ["\\x6162", "\\x"], ("convert_from", 1): ["UTF8"],
    ("convert_to", 1): ["UTF8", "LATIN1"], ("to_date", 0): ["05 Mar 2024", "2024-03-05", "20240305"], ("to_date", 1): ["DD Mon YYYY", "YYYY-MM-DD", "YYYYMMDD"],
    ("to_timestamp", 0): {"text": ["2024-03-05 14:07", "2024-03-05"], "float8": ["0", "1700000000.5", "-1"]}, ("to_timestamp", 1): ["YYYY-MM-DD HH24:MI", "YYYY-MM-DD"],
    ("to_number", 0): ["12,454.8-", "12", "-34.5", "$7.50", "1 234"], ("to_number", 1): ["99G999D9S", "99", "S99.9", "L9.99", "9 999"],
    ("make_date", 0): ["2024", "1999", "-44"], ("make_date", 1): ["1", "2", "12"], ("make_date", 2): ["1", "28", "29"], ("make_time", 0): ["0", "12", "23"], ("make_time", 1): ["0", "59"],
    ("make_time", 2): ["0", "3.5", "59.999999"], ("make_timestamp", 0): ["2024", "1"], ("make_timestamp", 1): ["2", "12"], ("make_timestamp", 2): ["29", "1"],
    ("make_timestamp", 3): ["0", "23"], ("make_timestamp", 4): ["0", "59"], ("make_timestamp", 5): ["0", "7.25"], ("make_timestamptz", 0): ["2024", "1"], ("make_timestamptz", 1): ["3", "12"],
    ("make_timestamptz", 2): ["31", "1"], ("make_timestamptz", 3): ["1", "23"], ("make_timestamptz", 4): ["0", "59"], ("make_timestamptz", 5): ["0", "7.25"], ("make_timestamptz", 6): ZONES,
    ("regexp_replace", 1): PATTERNS, ("regexp_replace", 2): ["X", "\\1", "<\\&>", ""], ("regexp_replace", 3): {"text": ["g", "i", "gi", ""], "int4": ["1", "2"]},
    ("regexp_replace", 4): {"int4": ["0", "1", "2"], "text": ["i"]}, ("regexp_replace", 5): ["i", "g"], ("regexp_like", 1): PATTERNS, ("regexp_like", 2): ["i", ""], ("regexp_count", 1): PATTERNS,
    ("regexp_count", 2): ["1", "2"], ("regexp_count", 3): ["i"], ("regexp_instr", 1): PATTERNS, ("regexp_instr", 2): ["1", "2"], ("regexp_instr", 3): ["1", "2"], ("regexp_instr", 4): ["0", "1"],
    ("regexp_instr", 5): ["i"], ("regexp_instr", 6): ["0", "1"], ("regexp_substr", 1): PATTERNS, ("regexp_substr", 2): ["1", "2"], ("regexp_substr", 3): ["1", "2"], ("regexp_substr", 4): ["i"],
    ("regexp_substr", 5): ["0", "1"], ("~", 1): {"text": PATTERNS}, ("~*", 1): PATTERNS, ("!~", 1): PATTERNS, ("!~*", 1): PATTERNS, ("translate", 1): ["abc", "a", "él"], ("translate", 2): ["xyz", "", "Q"],
    ("<<", 1): ["0", "1", "3", "33"], (">>", 1): ["0", "1", "3"], ("to_hex", 0): ["0", "255", "-1"], ("gcd", None): ["12", "18", "0", "-4"], ("lcm", None): ["4", "6", "0", "-3"],
    ("->", 1): {"text": ["a", "b"], "int4": ["0", "-1"]}, ("->>", 1): {"text": ["a", "b"], "int4": ["0", "2"]}, ("?", 1): ["a", "b"], ("justify_days", 0): ["35 days", "65 days 30:00", "-35 days"],
    ("justify_hours", 0): ["50 hours", "27:00:00", "1 day -25:00"], ("justify_interval", 0): ["1 mon -1 hour", "35 days 27 hours"],
}

TO_CHAR = {"timestamp": DATES[:-2] + ["BC"], "timestamptz": DATES, "interval": ["HH24:MI:SS", "DD HH12", "MI", "YYYY MM DD"], **dict.fromkeys(NUMBERS, DIGITS)}
DIVISORS = {"int2": ["2", "3", "-7"], "int4": ["2", "3", "-7", "10"], "int8": ["2", "3", "1000"], "float4": ["2", "-0.5"], "float8": ["2", "-0.5", "3"], "numeric": ["2.0", "0.3", "-7.5", "3.00"]}
# fmt: on


def argument(name, args, position):
    """The values for an argument of a function or operator; None if it may be any expression."""
    kind = args[position]
    if name == "to_char" and position == 1:
        return TO_CHAR[args[0]]
    if name in ("/", "%", "mod", "div") and position == 1:
        return DIVISORS.get(kind, DIVISORS["float8"])
    if name == "*" and position == 1 and kind in NUMBERS:
        return TAME[kind]
    found = ARGUMENTS.get((name, position), ARGUMENTS.get((name, None)))
    if isinstance(found, dict):
        return found.get(kind) or found.get(args[-1])
    return found
