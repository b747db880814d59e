"""Chat templates with the constructs of published ones, in words of their own, and conversations."""

TEMPLATES = {
    # A default system message, roles between marks.
    "chatml": (
        "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
        "{{ '<|im_start|>system\nBe helpful.<|im_end|>\n' }}{% endif %}"
        "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    ),
    # A first mark, a date, trimmed contents, a system message of its own, and blocks whose lines leave no trace.
    "dated": """{{- bos_token }}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "1 Jan 2020" %}
    {%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|head|>system<|end_head|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Tools: " + (tools | tojson(indent=4)) + "\\n" }}
{%- endif %}
{{- "Today: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|head|>' + message['role'] + '<|end_head|>\\n\\n'+ message['content'] | trim + '<|eot|>' }}
    {%- else %}
        {{- raise_exception("No tool messages!") }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|head|>assistant<|end_head|>\\n\\n' }}
{%- endif %}
""",
    # Thoughts that are taken out of earlier answers, a search from the end, namespaces, Python's string methods.
    "thinking": """{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(searching=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and message.content is string and not(message.content.startswith('<reply>') and message.content.endswith('</reply>')) %}
        {%- set ns.searching = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set thought = '' %}
        {%- if '[/think]' in content %}
            {%- set thought = content.split('[/think]')[0].rstrip('\\n').split('[think]')[-1].lstrip('\\n') %}
            {%- set content = content.split('[/think]')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or (not loop.last and thought)) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
""",
    # Macros, a strict order of roles, loop controls, comments, JSON.
    "strict": """{%- macro line(role, text) %}[{{ role | upper }}] {{ text | trim }}
{% endmacro %}
{#- A comment leaves no trace. #}
{%- set rest = messages if messages[0].role != 'system' else messages[1:] %}
{% for message in rest %}
    {% if (message.role == 'user') != (loop.index0 % 2 == 0) %}
        {{ raise_exception('Roles must alternate user/assistant/user/...') }}
    {% endif %}
    {% if loop.index > 4 %}
        {% break %}
    {% endif %}
{{ line(message.role, message.content) }}
{% endfor %}
{{ {'first': messages[0].content, 'list': [1, 2.5, true, none], 'n': messages | length} | tojson }}
{{- '\\n[ASSISTANT]' if add_generation_prompt }}
""",
    # Tools as lines of JSON in the system message, calls between marks, results as messages of the user.
    "tools": """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- 'Functions:' }}
    {%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}
    {{- '\\nCall one with <tool_call></tool_call>.<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' or (message.role == 'assistant' and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant' }}
        {%- if message.content %}{{- '\\n' + message.content }}{%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' + tool_call.name + '", "arguments": ' }}{{- tool_call.arguments | tojson }}{{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.index0 == 0 or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<result>' + message.content + '</result>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
""",
}

# The keys of parameters and arguments are in alphabetical order, as the engine keeps them.
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather, \"now\" or <later>",
            "parameters": {
                "properties": {"city": {"type": "string"}, "days": {"minimum": 1, "type": "integer"}},
                "required": ["city"],
                "type": "object",
            },
        },
    },
    {"type": "function", "function": {"name": "stop", "description": "", "parameters": {"type": "object"}}},
]
TOOL_CONVERSATIONS = [
    [{"role": "user", "content": "How is Rome?"}],
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Rome and Zürich?"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"type": "function", "function": {"name": "weather", "arguments": {"city": "Rome", "days": 2}}},
                {"type": "function", "function": {"name": "weather", "arguments": {"city": "Zürich"}}},
            ],
        },
        {"role": "tool", "content": "{\"sun\": true}"},
        {"role": "tool", "content": "rain"},
        {"role": "assistant", "content": "Sun and rain."},
        {"role": "user", "content": "Thanks"},
    ],
]

CONVERSATIONS = [
    [{"role": "user", "content": "Hello"}],
    [{"role": "system", "content": "  Answer in one word.\n"}, {"role": "user", "content": "Who's there?"}],
    [
        {"role": "user", "content": " First question \n"},
        {"role": "assistant", "content": "[think]\nLet me see.\n[/think]\n\nAn answer."},
        {"role": "user", "content": "naïve “quotes” <b>&amp;</b> 日本 😀\n\nand\tmore"},
    ],
    [
        {"role": "system", "content": ""},
        {"role": "user", "content": "<reply>tool</reply>"},
        {"role": "assistant", "content": "[think]\nOnce more.[/think]Yes"},
        {"role": "user", "content": "<reply>tool</reply>"},
    ],
    [{"role": "assistant", "content": "I begin."}, {"role": "user", "content": "Then I go on."}],
    [{"role": "user", "content": "{{ messages }} {% raw %} is no template {# here #}"}],
]
