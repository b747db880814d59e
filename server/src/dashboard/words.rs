//! The words of the pages. A second language is a second table of them, and the compiler finds what it lacks.

macro_rules! words {
    ($($name:ident = $text:literal;)*) => {
        /// Every word of the pages, in one language. The script uses those that begin with `js_`.
        pub struct Words {
            $(pub $name: &'static str,)*
        }

        impl Words {
            /// All words with their names.
            fn all(&self) -> Vec<(&'static str, &'static str)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }

        /// English.
        pub static EN: Words = Words { $($name: $text,)* };
    };
}

impl Words {
    /// The words that the script uses, as JSON.
    pub fn of_script(&self) -> String {
        let words = self.all().into_iter().filter_map(|(name, text)| Some((name.strip_prefix("js_")?, text.into())));
        serde_json::Value::Object(words.map(|(name, text)| (name.to_owned(), text)).collect()).to_string()
    }

    /// The name of a sentiment.
    pub fn mood(&self, name: &str) -> &'static str {
        match name {
            "positive" => self.positive,
            "negative" => self.negative,
            _ => self.neutral,
        }
    }
}

words! {
    language = "en";
    description = "Speech to text on your own machine";
    skip = "Skip to the content";
    menu = "Menu";
    sections = "Sections";
    actions = "Actions";
    name = "Name";
    created = "Created";
    time = "Time";
    title = "Title";
    status = "Status";
    length = "Length";
    cost = "Cost";
    model = "Model";
    email = "Email";
    password = "Password";
    copy = "Copy";
    delete = "Delete";
    download = "Download";
    open = "Open";
    search = "Search";
    never = "Never";
    active = "Active";
    untitled = "Untitled";
    newer = "Newer";
    older = "Older";
    newest = "Newest";
    pages = "Pages";
    loading = "Loading…";
    options = "Options";
    result = "Result";
    spoken_language = "Language";

    sign_in = "Sign in";
    sign_in_title = "Sign in to Auricle";
    sign_in_wrong = "The email address or the password is wrong.";
    forgot = "Forgot your password?";
    forgot_title = "Another password";
    forgot_lead = "A link to set another password goes to your address.";
    forgot_send = "Send the link";
    forgot_back = "Back to the sign-in";
    mail_none = "No mail is sent here. Ask the administrator.";
    sent = "Look into your mail";
    sent_to = "A letter is on the way to";
    sent_reset = "It comes if the address has an account. The link in it works once and ends after a day.";
    sent_sign_up = "Its link creates the account. It works once and ends after a day.";
    sent_nothing = "Nothing came? Look among the unwanted mail, then try again.";
    sign_up_mail = "A link goes to this address. With it you set your password.";
    confirm_gone = "This link was used already or has expired, or the address has an account by now. Sign in, or create the account once more.";
    sign_in_question = "You have an account?";
    sign_in_forgotten = "Forgot your password? Your administrator gets a link with";
    sign_up = "Create an account";
    sign_up_title = "Create your account";
    sign_up_question = "New here?";
    sign_up_offer = "Your account starts with free credit:";
    sign_up_taken = "This email address has an account already. Sign in, or ask your administrator for a link.";
    sign_up_closed = "New accounts are made by the administrator here.";
    email_wrong = "This is not an email address.";
    password_rule = "At least 10 characters. A few words are a good password.";
    password_short = "The password needs at least 10 characters.";
    password_long = "The password is too long.";
    password_weak = "This password is too easy to guess.";
    welcome = "Set your password";
    welcome_for = "For";
    welcome_set = "Set password and sign in";
    welcome_gone = "This link was used already or has expired. `auricle accounts link` makes a new one.";
    sign_out = "Sign out";
    sign_out_everywhere = "Sign out everywhere";
    error_title = "This did not work";
    error_not_found = "Not found";
    error_home = "Go to your transcripts";

    keys = "API keys";
    keys_lead = "Keys give programs access to your account. Keep them on your servers.";
    key_name = "Name of the new key";
    key_name_example = "Production server";
    key_create = "Create a key";
    key_created = "Created";
    key_once = "Copy the secret now. It is shown this once and cannot be read again.";
    key_try = "Try it";
    key_used = "Last used";
    key_revoke = "Revoke";
    key_revoke_confirm = "Revoke this key? Programs that use it are refused at once.";
    key_gone = "There is no such key, or it is revoked already.";
    key_name_missing = "Give the key a name, so that you know it again.";
    key_name_long = "The name may have 100 characters.";
    key_too_many = "This account has 1000 keys. Revoke one first.";
    keys_none = "No keys yet";
    keys_none_do = "Create your first key above, and send it as a bearer token with each request.";

    key_maker = "Made by";
    key_administrator = "The administrator";

    team = "Team";
    team_lead = "People who share this account. Each signs in with a password of their own.";
    team_of = "of";
    team_member = "The owner of the account invites people and sees to billing.";
    role = "Role";
    role_owner = "Owner";
    role_member = "Member";
    joined = "Joined";
    you = "You";
    remove = "Remove";
    remove_confirm = "Remove this member? Their keys are revoked, and they are signed out at once.";
    leave = "Leave";
    leave_confirm = "Leave this team? Your keys are revoked, and you cannot sign in any more.";
    member_gone = "The team has no such member. Its owner cannot be removed.";
    invite = "Invite";
    invite_email = "Email address of the new member";
    invite_example = "name@example.com";
    invited = "Invited:";
    invite_mailed = "A letter with the link is on the way.";
    invite_link = "Pass this link on. It is shown this once, works once and ends after 7 days. Another invitation of the address replaces it.";
    invite_present = "This address is in the team already.";
    invite_taken = "This address has an account of its own, and an address belongs to one account. Invite another address.";
    invite_too_many = "20 invitations are open. Withdraw one first.";
    invitations = "Open invitations";
    invitations_none = "None. An invitation takes a seat when it is accepted.";
    invitation_gone = "There is no such invitation. It was accepted, was withdrawn or has ended.";
    ends = "Ends";
    withdraw = "Withdraw";
    join = "Join the team";
    join_lead = "invites you to work in one account. Set a password for";
    join_set = "Set password and join";
    join_gone = "This invitation was used already, was withdrawn or has ended. Ask for another one.";
    join_taken = "This address has an account of its own by now, and an address belongs to one account. Ask for an invitation of another address.";
    join_full = "All seats of this team are taken. Ask its owner to free one, then open this link again.";

    transcripts = "Transcripts";
    transcript = "Transcript";
    transcripts_lead = "Everything that was transcribed, newest first.";
    transcripts_none = "Nothing transcribed yet";
    transcripts_none_do = "Upload a recording here, or create a key and send one from your program.";
    transcript_new = "New transcript";
    transcript_new_lead = "Audio or video, from your computer or from the web.";
    search_titles = "Search titles";
    search_none = "No transcript matches";
    search_clear = "Show all transcripts";
    any_status = "Any status";
    any_language = "Any language";
    status_queued = "Queued";
    status_processing = "Processing";
    status_completed = "Completed";
    status_error = "Failed";
    drop = "Drop audio or video here";
    drop_or = "or";
    drop_choose = "choose files";
    drop_kinds = "MP3, WAV, FLAC, M4A, OGG, MP4, MOV, WebM and more, up to 5 GiB each";
    url = "Or the address of a file on the web";
    url_add = "Transcribe";
    find_language = "Detect automatically";
    option_speakers = "Label speakers";
    option_summary = "Summary";
    option_chapters = "Chapters";
    option_entities = "Names and places";
    option_sentiment = "Sentiment";
    option_moderation = "Moderation";
    option_redaction = "Hide personal data";
    option_profanity = "Mask profanity";
    more_options = "More options";
    option_keyterms = "Names and terms to listen for, one a line";
    option_keyterms_example = "Auricle";
    option_title = "Title";
    option_webhook = "Webhook address";
    jobs = "Your files";
    running_lead = "The page shows the transcript as soon as it is ready.";
    failed = "This recording could not be transcribed";
    failed_do = "It was not billed.";
    silent = "Nothing was said";
    silent_why = "No speech was found in this recording.";
    confidence = "Confidence";
    download_txt = "Text (TXT)";
    download_srt = "Subtitles (SRT)";
    download_vtt = "Subtitles (VTT)";
    download_json = "Everything (JSON)";
    delete_confirm = "Delete this transcript and its recording for good?";
    find = "Find in the transcript";
    find_previous = "Previous match";
    find_next = "Next match";
    ask = "Ask";
    ask_label = "Your question";
    ask_example = "What was decided?";
    ask_send = "Ask";
    summary = "Summary";
    chapters = "Chapters";
    entities = "Names and places";
    sentiment = "Sentiment";
    moderation = "Flagged";
    positive = "Positive";
    neutral = "Neutral";
    negative = "Negative";
    player = "Player";
    play = "Play or pause";
    position = "Position";
    speed = "Speed";
    audio_gone = "The recording of this transcript is not here.";
    keyboard = "Keyboard: space plays and pauses, the arrows skip 5 seconds, J and L 10 seconds, K pauses.";

    webhooks = "Webhooks";
    webhooks_lead = "What was sent to the webhook addresses of your transcripts, newest first. Kept for 30 days.";
    webhooks_none = "No webhooks yet";
    webhooks_none_do = "Give a transcript a webhook address, here or as webhook_url in the API, and its end is sent there.";
    webhook = "Webhook";
    webhook_receiver = "Receiver";
    webhook_event = "Event";
    webhook_attempts = "Attempts";
    webhook_attempts_none = "None has come to an end yet.";
    webhook_pending = "Pending";
    webhook_delivered = "Delivered";
    webhook_failed = "Failed";
    webhook_next = "Next attempt";
    webhook_running = "Being sent now";
    webhook_again = "Send again";
    webhook_no_answer = "No answer";
    webhook_answer = "The beginning of the answer";
    webhook_body = "What is sent";
    webhook_gone = "There is no such webhook. They are kept for 30 days, and go with their transcript.";

    reference = "API reference";
    reference_lead = "Every request of the API with its fields and answers. Most can be tried here.";
    reference_errors = "Errors";
    reference_errors_lead = "An error has a code for programs and a message for people.";
    tag_transcripts = "Transcripts";
    tag_uploads = "Uploads";
    tag_language = "Questions and conversations";
    tag_models = "Models and voices";
    tag_billing = "Billing";
    tag_realtime = "Live sessions";
    tag_agent = "Voice agents";
    tag_openai = "In OpenAI's shape";
    tag_service = "The service";
    operation_gone = "There is no such request in the API.";
    parameters = "Parameters";
    request_body = "Body";
    answers = "Answers";
    required = "required";
    optional = "optional";
    kind_array = "array of";
    kind_entries = "entries";
    kind_characters = "characters";
    kind_default = "default";
    try_it = "Try it";
    try_lead = "It is sent as you, acts on your account, and costs what it costs.";
    try_send = "Send";
    try_confirm = "Send this? What it deletes is gone for good.";
    try_no_script = "Trying needs the script of this page. The command below needs none.";
    try_live = "A WebSocket is opened with a session token. The playground shows a live session:";

    usage = "Usage";
    usage_lead = "What your account has used. Days are UTC.";
    usage_csv = "Download CSV";
    usage_costs = "Cost in the last 30 days";
    usage_events = "Events";
    usage_none = "No usage yet";
    usage_none_do = "Each transcript and live session appears here with its cost.";
    usage_event = "event";
    usage_total = "events";
    from_credit = "From credit";
    billed = "Billed";

    billing = "Billing";
    billing_lead = "Free credit is used first. Beyond it you pay by the second.";
    credit_left = "Credit left";
    credit_of = "of";
    credit_granted = "free credit";
    billed_month = "Billed this month";
    billed_lifetime = "billed in all";
    subscription = "Subscription";
    subscription_active = "Usage beyond the free credit is billed.";
    subscription_none = "Not active";
    subscription_why = "Add a payment method to go on when the free credit is used up.";
    subscription_add = "Add a payment method";
    subscription_local = "This service records usage and charges nobody.";
    budget = "Budget alarm";
    budget_dollars = "Dollars a month";
    budget_lead = "A mail when the usage of a calendar month (UTC) has cost this much, from credit or billed. Empty: no mail.";
    budget_to = "It goes to";
    budget_set = "Save";
    budget_warned = "The mail of this month was written.";
    budget_wrong = "Enter dollars, such as 25 or 25.50, up to 1,000,000.";
    budget_no_mail = "An alarm by mail needs a mail server. The administrator sets mail_host.";
    rates = "Rates";
    rate_use = "For";
    rate_hour = "Per hour";
    rates_rule = "Metered by the second. Each event is rounded up to the next cent; failed transcripts are free.";
    kind_prerecorded = "Recordings";
    kind_realtime = "Live sessions";
    kind_agent = "Voice agents";
    kind_language = "Language";
    operator = "Operator";
    operator_lead = "The whole service, for those whom the setting operators names.";
    operator_metrics = "Metrics";
    operator_queue = "Queue";
    operator_waiting = "waiting";
    operator_processing = "being transcribed";
    operator_oldest = "the oldest waits since";
    operator_webhooks = "webhooks to send";
    operator_mails = "letters to send";
    operator_sessions = "Live sessions";
    operator_running = "connected";
    operator_most = "At most";
    operator_a_node = "a node";
    operator_memory = "Memory";
    operator_process = "this process";
    operator_weights = "of weights are loaded";
    operator_free = "are free on the machine";
    operator_nodes = "Nodes";
    operator_node = "Node";
    operator_this = "This one";
    operator_alive = "Running";
    operator_silent = "Silent since";
    operator_started = "Started";
    operator_models = "Models";
    operator_checkpoint = "Checkpoint";
    device = "Device";
    device_id = "Name in the settings";
    device_driver = "Driver";
    device_precision = "Precision of kernels";
    device_none = "This process does not transcribe: its role is api.";
    model_published = "Published";
    model_starter = "Stand-in";
    model_missing = "Missing";
    languages_any = "Any";
    languages_number = "languages";
    pull = "Pull";
    pull_size = "Checkpoint to pull";
    pull_begins = "Asking the model hub…";
    pull_of = "of";
    pull_checks = "Checking every tensor…";
    pull_present = "It is there already.";
    pull_unknown = "The catalog has no such model to pull.";
    checkout = "Add a payment method";
    checkout_local = "This service collects no payments: usage beyond the free credit is recorded, and nobody is charged.";
    checkout_start = "Start the metered subscription";
    checkout_subscribed = "Subscribed";
    checkout_done = "The metered subscription is active. You can close this page.";
    checkout_back = "Back to billing";

    playground = "Playground";
    playground_lead = "Try it in the browser, and take the code with you.";
    playground_file = "File";
    playground_live = "Live";
    playground_agent = "Voice agent";
    code = "Code";
    code_key = "The code reads your key from the environment, AURICLE_KEY.";
    microphone = "Microphone";
    microphone_default = "Default microphone";
    level = "Level of the microphone";
    live_start = "Start";
    live_hint = "Press Start and speak. The session costs by the second until you stop.";
    live_text = "What you say";
    live_nothing = "Your words appear here.";
    agent_prompt = "Instructions";
    agent_prompt_example = "You are the friendly receptionist of a hotel. You answer briefly.";
    agent_greeting = "Greeting";
    agent_greeting_example = "Hello! How can I help you?";
    agent_voice = "Voice";
    agent_voice_default = "Default voice";
    agent_tools = "Tools";
    agent_tools_json = "Tools, as JSON";
    agent_result = "What a tool answers here, as JSON";
    agent_call = "Call";
    agent_hint = "Press Call and speak; you may interrupt the agent. The session costs by the second until you hang up.";
    agent_conversation = "Conversation";
    agent_nothing = "What you and the agent say appears here.";

    js_copied = "Copied";
    js_copy_failed = "Copying failed; select the text yourself.";
    js_failed = "This did not work. Try again.";
    js_offline = "The service cannot be reached.";
    js_signed_out = "You are signed out. Load the page again.";
    js_uploading = "Uploading";
    js_starting = "Starting";
    js_queued = "Queued";
    js_processing = "Transcribing";
    js_completed = "Completed";
    js_error = "Failed";
    js_broken = "The upload broke off.";
    js_retry = "Try again";
    js_open = "Open";
    js_silent = "Nothing was said.";
    js_no_file = "Choose a file or enter an address.";
    js_of = "of";
    js_find_language = "Detect automatically";
    js_no_match = "No match";
    js_asking = "Reading the transcript…";
    js_ask_stop = "Stop";
    js_ask_stopped = "Stopped.";
    js_answer_lost = "The connection was lost before the answer was whole. Ask again.";
    js_by = "Answered by";
    js_media_failed = "The browser cannot play this recording.";
    js_speaker = "Speaker";
    js_speaker_rename = "Rename this speaker";
    js_speaker_name = "Name of speaker";
    js_live_stop = "Stop";
    js_live_asking = "Waiting for the microphone…";
    js_live_connecting = "Connecting…";
    js_live_speak = "Speak now.";
    js_live_ending = "Ending the session…";
    js_live_ended = "The session has ended.";
    js_live_lost = "The connection was lost. What was said is kept; press Start to go on.";
    js_live_refused = "The browser was not allowed to use the microphone. Allow it beside the address, then press Start.";
    js_live_no_device = "No microphone was found. Plug one in, then press Start.";
    js_live_unplugged = "The microphone was unplugged. The session has ended.";
    js_live_insecure = "Browsers give the microphone to pages over HTTPS or on localhost alone.";
    js_live_latency = "Words after";
    js_milliseconds = "ms";
    js_agent_hang_up = "Hang up";
    js_agent_tools_json = "The tools are not JSON:";
    js_agent_tools_list = "The tools must be a JSON array.";
    js_agent_you = "You";
    js_agent_agent = "Agent";
    js_agent_tool = "Tool";
    js_agent_fault = "Problem";
    js_agent_arguments = "Arguments";
    js_agent_answered = "Answered with what the box says:";
    js_agent_first_sound = "First sound after";
    js_agent_interrupted = "Interrupted";
    js_agent_updated = "The agent has the new settings.";
    js_agent_listens = "The agent listens.";
    js_agent_hears = "The agent hears you…";
    js_agent_thinks = "The agent thinks…";
    js_agent_speaks = "The agent speaks.";
    js_agent_ended = "The call has ended.";
    js_agent_lost = "The connection was lost. What was said is kept; press Call to go on.";
}
