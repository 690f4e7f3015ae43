"""Files and folders: writing (writing, temporary), mapping, finding (folders), and cleaning up after ended
processes (left_behind); zip_size bounds the number of members of an archive from outside."""
