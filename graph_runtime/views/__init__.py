"""What people look at: reports, timelines, profiles, pictures. Makes values and text, prints nothing."""
