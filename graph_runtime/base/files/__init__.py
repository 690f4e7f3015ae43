"""Files and folders: how they are written (writing, temporary), mapped and found (folders), and what an ended
process left behind of them; zip_size is the bound of archives from outside.
"""
